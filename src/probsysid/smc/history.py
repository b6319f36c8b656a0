"""What a run went through, sample by sample and rejuvenation by rejuvenation."""

from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from jaxtyping import Float

from probsysid.smc.ibis import StepInfo
from probsysid.smc.rejuvenate import Rejuvenation
from probsysid.smc.weights import log_sum_exp


@dataclass
class History:
    """A growing log.  Pieces are joined only when somebody looks."""

    islands: int
    ess_pieces: list[np.ndarray] = field(default_factory=list)
    evidence_pieces: list[np.ndarray] = field(default_factory=list)
    rejuvenations: list[Rejuvenation] = field(default_factory=list)
    rebased: dict[int, np.ndarray] = field(default_factory=dict)
    """Log evidence of each island after so many samples, where it was found anew or the accuracy was changed: later
    samples add to it."""

    def add(self, step: StepInfo) -> None:
        """Note what one step went through."""
        self.ess_pieces.append(step.ess)
        self.evidence_pieces.append(step.evidence)
        self.rejuvenations.extend(step.rejuvenations)
        if step.rebased is not None:
            self.rebased[len(self.evidence)] = step.rebased

    def copy(self) -> "History":
        """One that can grow by itself."""
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
        """One row a rejuvenation."""
        return pd.DataFrame(self.rejuvenations, columns=list(Rejuvenation._fields))


LARGE = 0.5
"""Error of a log evidence from which on it is that of the logarithms."""


def log_mean_exp(values: Float[np.ndarray, "*rows island"]) -> Float[np.ndarray, "*rows"]:
    """Log of the mean over islands."""
    return np.asarray(log_sum_exp(values) - np.log(values.shape[-1]))


def evidence_error(by_population: Float[np.ndarray, " population"]) -> float:
    """Standard error of the log of the mean evidence, from its spread over populations; NaN with one.

    Where populations differ by several units, one outweighs the others and the spread of their logarithms says more.
    """
    count = len(by_population)
    if count < 2:
        return float("nan")
    relative = np.exp(by_population - np.max(by_population))
    of_mean = np.std(relative, ddof=1) / np.mean(relative) / np.sqrt(count)
    of_logs = np.std(by_population, ddof=1) / np.sqrt(count)
    return float(of_logs if of_logs > LARGE else of_mean)


def _joined(pieces: list[np.ndarray], islands: int) -> np.ndarray:
    return np.concatenate(pieces) if pieces else np.empty((0, islands))
