"""Array types that several folders name in their signatures."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Array

Numbers = np.ndarray | Array
"""An array of NumPy, on the host, or of JAX, on a device or traced: `Float[Numbers, "state particle"]`."""

Scalar = Numbers | float
"""A number of one particle: traced, or known beforehand.  `jax.vmap` gives it a particle axis."""

Truth = Numbers | bool
"""Whether something is so for one particle: traced, or known beforehand."""

Index = Array | int
"""A whole number: traced, or known beforehand."""

Vector = Numbers | Sequence[Scalar]
"""Several numbers of one particle."""
