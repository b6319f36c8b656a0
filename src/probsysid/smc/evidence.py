"""The evidence found anew, from the proposals of a rejuvenation.

Moves that draw proposals from a density q leave an importance sample of the posterior behind, whose filter runs are
paid for: the mean of target / q is the evidence.  Errors that the product of mean weights has gathered since the first
sample are not in it.  But where q misses some of the posterior, that mean is dominated by proposals that are rarely
drawn, and looks more certain than it is.  So it is taken only if particles, which are there already where proposals are
rare, agree that few proposals would do, and if the populations agree about it better than about the
product.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from probsysid.smc import weights as w
from probsysid.smc.moves import Move

Ratios = Float[np.ndarray, "population member"]

ENOUGH = 0.5
"""Share of the particles that the proposals must be worth."""


class ProposalEvidence(NamedTuple):
    """Log of target over q: at the particles when a kind of move began, and at all its proposals."""

    move: Move | None = None
    particles: Any = None
    proposals: tuple[Ratios, ...] = ()

    def with_more(self, move: Move, particles: Ratios, proposals: Ratios) -> "ProposalEvidence":
        """With those of one more move.  Only those of the last kind of move count: others were a poor fit."""
        if not getattr(move, "independent", False):  # a user's own move need not say
            return self
        if self.move != move:
            return ProposalEvidence(move, particles, (proposals,))
        return self._replace(proposals=(*self.proposals, proposals))

    def better_than(self, product: Float[np.ndarray, " population"]) -> Float[np.ndarray, " population"]:
        """Log evidence of each population: from the proposals if that is the better estimate, else as given."""
        if not self.proposals:
            return product
        ratios = np.concatenate(self.proposals, axis=-1)
        ratios = np.where(np.isnan(ratios), -np.inf, ratios)
        found = w.log_mean(ratios)
        if not np.all(np.isfinite(found)) or proposal_ess(self.particles, ratios) < ENOUGH * self.particles.size:
            return product
        return found if spread(found) < spread(product) else product


def proposal_ess(particles: Ratios, proposals: Float[np.ndarray, "population proposal"]) -> float:
    """Number of draws from the posterior that the proposals are worth, by themselves or by the particles: the
    posterior's mean of target / q is the mean of its square under q."""
    by_proposals = float(w.effective_size(proposals.reshape(1, -1))[0])
    with np.errstate(over="ignore"):
        typical = np.exp(w.log_mean(particles.ravel()) - w.log_mean(proposals.ravel()))
    return min(by_proposals, proposals.size / max(float(typical), 1e-300))


def spread(log_evidence: Float[np.ndarray, " population"]) -> float:
    """How much populations differ."""
    return float(np.std(log_evidence))
