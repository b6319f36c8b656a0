"""One particle: the values of everything that is inferred about a record, by their role in the filter."""

from collections.abc import Mapping
from typing import NamedTuple

from probsysid._internal.array_types import Scalar
from probsysid.model.noise import OutputNoise


class Particle(NamedTuple):
    """Parameters, noise, initial state and process noise of one particle; of many, with the particle axis last."""

    parameters: Mapping[str, Scalar]
    noise: list[OutputNoise]
    """Measurement noise of each output: the standard deviation where it is Gaussian."""
    initial_mean: list[Scalar]
    """Of each physical component, in physical units."""
    initial_sd: list[Scalar]
    process_noise: list[Scalar | None] | None = None
    """White-noise force on each coordinate: s of d x^(n-1) = f dt + s dW, None where there is none."""
    diffusion: list[Scalar] | None = None
    """Of the solver's prior by coordinate, its square root, where it is a quantity."""
    seed: list[Scalar] | None = None
    """Of what is drawn for the particle, for filters that draw random numbers; None for others."""
