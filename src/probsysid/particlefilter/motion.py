"""How a point moves over a sampling interval, given standard normal numbers for the noise in its equations.

Each step moves along the equations by classical Runge-Kutta, and adds the noise of the step with the factors at its
beginning, as Euler and Maruyama do: g(x) sqrt(h) xi.  The noise is in the sense of Ito.
"""

from collections.abc import Sequence
from itertools import accumulate

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from probsysid._internal.array_types import Index, Scalar
from probsysid.model.model import Model
from probsysid.model.particle import Particle
from probsysid.odefilter.interval_data import IntervalData
from probsysid.odefilter.runge_kutta import (
    MOST_WRITTEN_OUT,
    first_order,
    stages_in_loop,
    stages_written_out,
    step_inputs,
)
from probsysid.odefilter.unrolled.gaussian import Row


def noises(model: Model, disturbed: Sequence[bool]) -> int:
    """Independent noises of one step: those of the diffusion, and process noise of some coordinates."""
    return len(model.wiener_names) + sum(disturbed)


def move(
    model: Model,
    particle: Particle,
    sample: IntervalData,
    substeps: int,
    point: Float[Array, " component"],
    normals: Float[Array, "substep noise"],
) -> Float[Array, " component"]:
    """The point at the sample, from its place at the sample before."""

    def rates(at: Row, inputs: list[Scalar]) -> Row:
        return first_order(model, at, model.highest_derivatives(at, inputs, particle.parameters))

    advance = stages_in_loop if model.operations > MOST_WRITTEN_OUT else stages_written_out

    def step(at: Array, given: tuple[Index, Array]) -> tuple[Array, None]:
        number, normal = given
        inputs = step_inputs(sample, number)
        start = list(at)
        kicks = kicks_of(model, particle, start, inputs[0], list(normal))
        end = advance(rates, start, sample.step, inputs)
        root = jnp.sqrt(sample.step)
        return jnp.stack([x if kick is None else x + root * kick for x, kick in zip(end, kicks, strict=True)]), None

    # not written out: with 256 points XLA then takes twenty times as long
    return lax.scan(step, point, (jnp.arange(substeps), normals))[0]


def kicks_of(
    model: Model, particle: Particle, start: list[Scalar], inputs: list[Scalar], normals: list[Scalar]
) -> list[Scalar | None]:
    """What noise adds to each component in unit time; None where there is none."""
    kicks: list[Scalar | None] = [None] * len(start)
    offsets = dict(zip(model.coordinates, accumulate(model.orders), strict=True))
    given = iter(normals)

    def add(coordinate: str, value: Scalar) -> None:
        place = offsets[coordinate] - 1
        before = kicks[place]
        kicks[place] = value if before is None else before + value

    columns = model.diffusion_columns(start, inputs, particle.parameters)
    for process in model.wiener_names:
        normal = next(given)
        for coordinate, factor in columns[process].items():
            add(coordinate, factor * normal)
    for coordinate, level in zip(model.coordinates, particle.process_noise or [], strict=False):
        if level is not None:
            add(coordinate, level * next(given))
    return kicks
