"""One particle: the values of everything that is inferred about a record, by their role in the filter."""

from collections.abc import Mapping
from typing import NamedTuple

from probsysid._internal.array_types import Scalar


class Particle(NamedTuple):
    """Parameters, noise levels, initial state and model error of one particle; of many, with the particle axis last."""

    parameters: Mapping[str, Scalar]
    noise: list[Scalar]
    """Standard deviation of the measurement noise of each output."""
    initial_mean: list[Scalar]
    """Of each physical component, in physical units."""
    initial_sd: list[Scalar]
    model_error: list[Scalar] | None = None
    """Square root of a further diffusion for each coordinate, added in quadrature to the numerical one."""
