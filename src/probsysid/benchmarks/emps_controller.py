"""The digital controller of the EMPS: the axis in closed loop, from its reference.

At every sample the controller takes the position, differentiates it over two samples, and holds its voltage until the
next one:

    voltage = kv (kp (reference - q[k]) - (q[k] - q[k-2]) / (2 Ts))

The training record has both sides of this equation.  With the gains that were published it holds to 0.004 V; with the
difference over one sample to 0.05 V, as with the velocity itself (docs/decisions.md).  A millisecond of delay in the
velocity matters: it is worth several newtons while the axis accelerates.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PyTree

from probsysid._internal.array_types import Numbers, Scalar
from probsysid.benchmarks.case import Parameters
from probsysid.data.record import Record
from probsysid.model.model import Model
from probsysid.odefilter.filter import map_blocks
from probsysid.posterior.simulate import BLOCK, Forces, IntervalInputs, over_interval

LARGEST_VOLTAGE = 10.0


class Drive(NamedTuple):
    """Constants of the benchmark: gain of the motor, and gains of its controller."""

    gtau: float
    kp: float
    kv: float


def voltage(drive: Drive, dt: float, reference: Scalar, position: Scalar, two_before: Scalar) -> Scalar:
    """What the controller puts out, without pulses that are added to it."""
    wanted = drive.kv * (drive.kp * (reference - position) - (position - two_before) / (2 * dt))
    return jnp.clip(wanted, -LARGEST_VOLTAGE, LARGEST_VOLTAGE)


def closed_loop(
    model: Model, drive: Drive, record: Record, steps: int, initial: Mapping[str, float]
) -> Callable[..., Float[np.ndarray, "particle sample"]]:
    """A `ScoringProtocol.predict` of the position from reference and pulses; the model's input is the force."""
    start = [initial[name] for name in model.physical_names]
    dt = float(record.time[1] - record.time[0])
    inputs = np.asarray(record.inputs["reference"]), np.asarray(record.inputs["pulses"])

    def predict(
        parameters: Parameters, process_noise: Parameters | None = None
    ) -> Float[np.ndarray, "particle sample"]:
        given = {name: np.asarray(parameters[name]) for name in model.parameter_names}
        count = len(next(iter(given.values())))
        states = np.repeat(np.array(start)[:, None], count, axis=1)
        forces = Forces.of(model, {name: np.asarray(level) for name, level in (process_noise or {}).items()}, 0)
        return np.asarray(_program(model, drive, dt, steps)(given, states, forces, *inputs)).T

    return predict


@lru_cache(maxsize=8)
def _program(model: Model, drive: Drive, dt: float, steps: int) -> Callable[..., Array]:
    """The compiled loop: positions of all particles, (sample, particle)."""

    def one(parameters: Mapping[str, Scalar], start: Array, forces: Forces, reference: Array, pulses: Array) -> Array:
        def sample(carry: tuple[Array, Array, Array], item: PyTree) -> tuple[tuple[Array, Array, Array], Array]:
            state, before, two_before = carry
            wanted, pulse, index = item
            force = drive.gtau * (voltage(drive, dt, wanted, state[0], two_before) + pulse)
            held = IntervalInputs(jnp.full((2 * steps, 1), force), force[None], force[None], jnp.asarray(dt / steps))
            after = over_interval(model, steps, state, parameters, held, forces, steps * index)
            return (after, state[0], before), after[0]

        # before the record the axis moved at its first velocity
        earlier = start[0] - dt * start[1], start[0] - 2 * dt * start[1]
        items = reference[:-1], pulses[:-1], jnp.arange(len(reference) - 1)
        _, positions = lax.scan(sample, (start, *earlier), items)
        return jnp.concatenate([start[:1], positions])

    def run(
        parameters: Mapping[str, Scalar], states: Numbers, forces: Forces, reference: Array, pulses: Array
    ) -> Array:
        def block(part: PyTree) -> Array:
            parameters, states, forces = part
            particles = jax.vmap(one, in_axes=(-1, -1, -1, None, None), out_axes=-1)
            return particles(parameters, states, forces, reference, pulses)

        return map_blocks(block, (parameters, states, forces), BLOCK)

    return jax.jit(run)
