"""The log of a run: effective sample size and evidence after each sample, and every rejuvenation."""

from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from jaxtyping import Float

from probsysid._internal.statistics import log_mean_exp
from probsysid.smc.ibis import StepInfo
from probsysid.smc.rejuvenate import Rejuvenation


@dataclass
class History:
    """A growing log.  Its pieces are concatenated when they are read."""

    islands: int
    ess_pieces: list[np.ndarray] = field(default_factory=list)
    evidence_pieces: list[np.ndarray] = field(default_factory=list)
    rejuvenations: list[Rejuvenation] = field(default_factory=list)
    rebased: dict[int, np.ndarray] = field(default_factory=dict)
    """By number of samples: log evidence of each island where it was re-estimated or the number of substeps changed;
    later samples add to it."""

    def add(self, step: StepInfo) -> None:
        """Append what one step of the sampler did."""
        self.ess_pieces.append(step.ess)
        self.evidence_pieces.append(step.evidence)
        self.rejuvenations.extend(step.rejuvenations)
        if step.rebased is not None:
            self.rebased[len(self.evidence)] = step.rebased

    def copy(self) -> "History":
        """An independent copy."""
        pieces = list(self.ess_pieces), list(self.evidence_pieces)
        return History(self.islands, *pieces, list(self.rejuvenations), dict(self.rebased))

    @property
    def ess(self) -> Float[np.ndarray, "sample island"]:
        """Effective sample size of each island after each sample."""
        self.ess_pieces = [_joined(self.ess_pieces, self.islands)]
        return self.ess_pieces[0]

    @property
    def evidence(self) -> Float[np.ndarray, "sample island"]:
        """Log evidence of each island after each sample."""
        self.evidence_pieces = [_joined(self.evidence_pieces, self.islands)]
        return self.evidence_pieces[0]

    @property
    def log_predictive(self) -> Float[np.ndarray, " sample"]:
        """Log density of each sample given those before it.

        Where a rejuvenation corrected the evidence, the samples since the one before share the correction.
        """
        before = np.concatenate([[0.0], log_mean_exp(self.evidence[:-1])]) if len(self.evidence) else np.empty(0)
        for samples, evidence in self.rebased.items():
            if samples < len(before):
                before[samples] = log_mean_exp(evidence)
        gains = log_mean_exp(self.evidence) - before
        first = 0
        for event in self.rejuvenations:
            first = min(first, event.sample)  # the same sample again, when it is bridged
            gains[first : event.sample + 1] += event.correction / (event.sample + 1 - first)
            first = event.sample + 1
        return gains

    def table(self) -> pd.DataFrame:
        """One row per rejuvenation."""
        return pd.DataFrame(self.rejuvenations, columns=list(Rejuvenation._fields))


def _joined(pieces: list[np.ndarray], islands: int) -> np.ndarray:
    return np.concatenate(pieces) if pieces else np.empty((0, islands))
