"""Adaptive importance sampling: from a rough idea of the posterior to a distribution that is close to it.

Draws are weighted, a distribution is fitted to them, and further draws come from that.  The draws of several rounds are
weighted by the mixture of their distributions (adaptive multiple importance sampling, Cornuet, Marin, Mira and
Robert 2012), so that one that was too narrow does no harm.  The distributions reach out along every axis
(`WideAxesT`), through a map that follows bends (`Curved`): what the draws miss is found where it goes on from what they
have.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from probsysid._internal.statistics import effective_sample_size, log_mean_exp
from probsysid.posterior.diagnostics.solver_check import smoothed
from probsysid.posterior.importance_sampling import HEAVY, ImportanceSample, LogDensity
from probsysid.smc.proposals import DegenerateParticles, Density, EqualMixture, Proposal, StudentTMixture, WideAxesT
from probsysid.smc.transport import BestFit, Curved

FAMILIES: tuple[Proposal, ...] = (Curved(WideAxesT()), BestFit((StudentTMixture(), Curved(StudentTMixture()))))
"""Draws come from each alike: the first reaches out, the second fits closely."""

ROUNDS = 30
GOOD = 0.1
"""Effective over actual draws at which a distribution is close enough, with weights whose variance is finite ..."""
IN_TURN = 3
"""... for this many rounds, whose evidences agree with the last ..."""
AGREE = 3.0
"""... to this many standard errors."""

KEPT = 6
"""Rounds whose draws the next distribution is fitted to."""

LARGEST_WEIGHT = 0.02
"""A draw has at most this weight when the next distribution is fitted: the first few good ones must not collapse it."""


class Round(NamedTuple):
    """How the draws of one round fared."""

    efficiency: float
    pareto_shape: float
    log_evidence: float
    error: float

    @property
    def good(self) -> bool:
        return self.efficiency >= GOOD and self.pareto_shape < HEAVY


class Adapted(NamedTuple):
    """The last distribution, and how each round fared."""

    density: Density
    rounds: tuple[Round, ...]

    @property
    def converged(self) -> bool:
        """Whether the last rounds were good and agree about the evidence."""
        last = self.rounds[-IN_TURN:]
        if len(last) < IN_TURN or not all(each.good for each in last):
            return False
        final = last[-1]
        return all(
            abs(each.log_evidence - final.log_evidence) < AGREE * float(np.hypot(each.error, final.error))
            for each in last[:-1]
        )


def adapt(
    target: LogDensity,
    sources: Sequence[Density],
    random: np.random.Generator,
    count: int,
    rounds: int = ROUNDS,
    go_on: Callable[[Adapted], bool] = lambda _: True,
) -> Adapted:
    """Adapt until converged, or as long as `go_on` says, `count` draws per round.

    Raises `DegenerateParticles` if no draw of the first round has any weight.
    """
    history = _History()
    found: tuple[Round, ...] = ()
    while True:
        sample = ImportanceSample.of(sources, target, random, count)
        history.add(sample, sources)
        found = (*found, _fared(sample))
        sources = history.fitted(random)
        adapted = Adapted(EqualMixture(tuple(sources)), found)
        if adapted.converged or len(found) == rounds or not go_on(adapted):
            return adapted


def _fared(sample: ImportanceSample) -> Round:
    logs = sample.ratios
    size = float(effective_sample_size(logs))
    error = float(np.sqrt(max(1 / max(size, 1.0) - 1 / len(logs), 0.0)))
    return Round(size / len(logs), smoothed(logs)[1], float(log_mean_exp(logs)), error)


class _History:
    """The draws of the newest rounds, under the mixture of all distributions that they came from."""

    def __init__(self) -> None:
        self.samples: list[ImportanceSample] = []
        self.sources: list[Sequence[Density]] = []

    def add(self, sample: ImportanceSample, sources: Sequence[Density]) -> None:
        self.samples = [*self.samples, sample][-KEPT:]
        self.sources = [*self.sources, sources][-KEPT:]

    def fitted(self, random: np.random.Generator) -> list[Density]:
        """Distributions close to the weighted draws."""
        theta = np.hstack([sample.theta for sample in self.samples])
        densities = np.stack([_log_density(sources, theta) for sources in self.sources], axis=-1)
        pooled = ImportanceSample(
            theta, np.concatenate([sample.log_target for sample in self.samples]), log_mean_exp(densities)
        )
        weights, _ = smoothed(pooled.ratios)
        if not weights.sum() > 0:
            raise DegenerateParticles("no draw has any weight")
        alive = weights > 0
        held = np.minimum(weights[alive], max(LARGEST_WEIGHT, 1 / alive.sum()))
        return [family.fit(random, theta[:, alive], held / held.sum()) for family in FAMILIES]


def _log_density(sources: Sequence[Density], theta: np.ndarray) -> np.ndarray:
    return EqualMixture(tuple(sources)).log_density(theta)
