"""Log evidence: re-estimated from independence proposals, and its standard error.

Moves that draw proposals from a density q leave an importance sample of the posterior behind, whose filter runs are
paid for: the mean of target / q is the evidence.  It is free of the errors that the product of mean weights has
accumulated since the first sample.  But where q misses some of the posterior, that mean is dominated by proposals that
are rarely drawn, and looks more certain than it is.  So it is used only if the particles, which are already where
proposals are rare, confirm that few proposals suffice, and if the populations agree about it better than about the
product.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from probsysid._internal.statistics import effective_sample_size, log_mean_exp
from probsysid.smc.moves import Move

Ratios = Float[np.ndarray, "population member"]
ProposalRatios = Float[np.ndarray, "population proposal"]

ENOUGH = 0.5
"""Effective sample size that the proposals must reach, as a fraction of the particles."""


class ProposalEvidence(NamedTuple):
    """Log of target over q: at the particles when a kind of move began, and at all its proposals."""

    move: Move | None = None
    particles: Ratios = np.empty((0, 0))
    proposals: tuple[ProposalRatios, ...] = ()

    def with_more(self, move: Move, particles: Ratios, proposals: ProposalRatios) -> "ProposalEvidence":
        """With the ratios of one more move.  Only the last kind of move counts: earlier ones fitted poorly."""
        if not move.independent:
            return self
        if self.move != move:
            return ProposalEvidence(move, particles, (proposals,))
        return self._replace(proposals=(*self.proposals, proposals))

    def better_than(
        self, product: Float[np.ndarray, " population"], shared_error: float = 0.0
    ) -> Float[np.ndarray, " population"]:
        """Log evidence of each population: from the proposals if that estimate is better, else the product, which has
        an error that all populations share besides their spread."""
        if not self.proposals:
            return product
        ratios = np.concatenate(self.proposals, axis=-1)
        ratios = np.where(np.isnan(ratios), -np.inf, ratios)
        found = log_mean_exp(ratios)
        if not np.all(np.isfinite(found)) or proposal_ess(self.particles, ratios) < ENOUGH * self.particles.size:
            return product
        uncertainty = np.hypot(spread(product), shared_error * np.sqrt(len(product)))
        return found if spread(found) < uncertainty else product


def proposal_ess(particles: Ratios, proposals: ProposalRatios) -> float:
    """Effective sample size of the proposals, judged by themselves and by the particles, whichever is smaller: the
    posterior mean of target / q is the mean of its square under q."""
    by_proposals = float(effective_sample_size(proposals.reshape(1, -1))[0])
    with np.errstate(over="ignore"):
        typical = np.exp(log_mean_exp(particles.ravel()) - log_mean_exp(proposals.ravel()))
    return min(by_proposals, proposals.size / max(float(typical), 1e-300))


def spread(log_evidence: Float[np.ndarray, " population"]) -> float:
    """Standard deviation between populations."""
    return float(np.std(log_evidence))


LARGE = 0.5
"""Error of a log evidence above which it is taken from the spread of the logarithms."""


def evidence_error(by_population: Float[np.ndarray, " population"], shared_error: float = 0.0) -> float:
    """Standard error of the log of the mean evidence, from its spread over populations and the error that they have in
    common since they were pooled; NaN with one population.

    Where populations differ by several units, one outweighs the others and the spread of their logarithms says more.
    """
    count = len(by_population)
    if count < 2:
        return float("nan")
    relative = np.exp(by_population - np.max(by_population))
    of_mean = np.std(relative, ddof=1) / np.mean(relative) / np.sqrt(count)
    finite = by_population[np.isfinite(by_population)]  # the evidence of a population without particles is zero
    of_logs = np.std(finite, ddof=1) / np.sqrt(count) if len(finite) > 1 else 0.0
    return float(np.hypot(of_logs if of_logs > LARGE else of_mean, shared_error))
