"""Priors: everything in `numpyro.distributions`, under one short name."""

from numpyro.distributions import *  # noqa: F403
from numpyro.distributions import Distribution, constraints, transforms

__all__ = ["Distribution", "constraints", "transforms"]
