"""Populations pooled: where one has no particle left, all are filled anew from the particles of all.

The evidence of a population that died is estimated as zero, and counts as such in the mean over populations.  The
particles of all, weighted by the populations' evidences, are one sample of the posterior; resampled from it, they carry
the mean evidence.  The number of copies of each particle has the right expectation, so the evidence stays unbiased,
whenever populations are pooled.  But from then on they share ancestors, and what their evidences differed by until then
no longer shows in their spread.  So its standard error is kept, and added to later ones.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from probsysid._internal.statistics import log_mean_exp
from probsysid.smc import weights as w
from probsysid.smc.evidence import evidence_error
from probsysid.smc.metropolis import ParticleBatch
from probsysid.smc.resampling import Resampling


class Pooled(NamedTuple):
    """Equally weighted particles of all populations."""

    batch: ParticleBatch
    log_evidence: float
    """The same for every population."""
    error: float
    """Its standard error, from the populations' spread before; infinite where there was nothing to compare."""


def pool(
    batch: ParticleBatch,
    log_weights: Float[np.ndarray, "population member"],
    base_evidence: Float[np.ndarray, " population"],
    resampling: Resampling,
    random: np.random.Generator,
) -> Pooled:
    """Resample the particles of all populations together.

    Copies stay in the order of their ancestors: those of one ancestor mostly come into one population, and populations
    that found different things keep showing it.
    """
    weights = w.normalise((base_evidence[:, None] + log_weights).ravel())
    ancestors = np.sort(resampling(random, weights, weights.size))
    by_population = base_evidence + log_mean_exp(log_weights)
    return Pooled(batch.copies_across(ancestors), float(log_mean_exp(by_population)), evidence_error(by_population))
