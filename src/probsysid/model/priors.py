"""What may be given as the prior of a quantity."""

from collections.abc import Mapping
from typing import TypeAlias

import numpyro.distributions as dist

Prior: TypeAlias = dist.Distribution | float
"""A distribution; a number fixes the quantity."""

Priors: TypeAlias = Mapping[str, Prior] | Mapping[str | tuple[str, ...], Prior]
"""Priors by parameter; a tuple of names has a joint prior."""
