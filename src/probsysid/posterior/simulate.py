"""Free-run simulation: every particle's model integrated accurately from an initial state, and scored.

Classical Runge-Kutta of order four, with as many steps per sample as needed: the number is doubled on a few particles
until the outputs stop changing.  Process noise is drawn at the end of every step, with the covariance of the force's
integrals over it.  Inputs follow their intersample behaviour; a jump at a sample is seen from the
right side on each of its sides.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from math import factorial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jax import lax
from jaxtyping import Array, Float, Int

from probsysid._internal.array_types import Index, Numbers, Scalar, Vector
from probsysid._internal.errors import InputError
from probsysid._internal.jax_setup import check_jax
from probsysid._internal.notebook import html
from probsysid._internal.statistics import weighted_quantile
from probsysid._internal.validation import check_level
from probsysid.data.record import Record
from probsysid.model.model import Model
from probsysid.odefilter import iwp
from probsysid.odefilter.filter import map_blocks
from probsysid.odefilter.filter_inputs import step_lengths
from probsysid.posterior.cards import simulation_card
from probsysid.posterior.noise_draws import CarriedNoise

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ACCURACY = 1e-6
"""Largest change of the outputs on halving the step, relative to their range, at which the step is fine enough."""

MOST_STEPS = 64

NOISY_STEPS = 8
"""Fewest steps per sample with process noise: what a step's noise does within the step is left out."""

BLOCK = 64
PILOTS = 8


@dataclass(frozen=True, eq=False)
class Simulation:
    """Simulated outputs of every particle, and how they compare to the measured ones.

    `skip` samples at the start are left out of every score.
    """

    record: Record
    outputs: dict[str, Float[np.ndarray, "particle sample"]]
    weights: Float[np.ndarray, " particle"]
    steps: int
    """Integration steps per sample."""
    integration_error: float
    """Estimated error of the integration, relative to the range of the outputs."""
    skip: int = 0
    start: str = ""
    """Where it starts, as in "the given initial state"."""
    chosen: Int[np.ndarray, " particle"] = field(default_factory=lambda: np.arange(0))
    """Index of each particle in the posterior."""
    carried: dict[str, CarriedNoise] = field(default_factory=dict)
    """Coloured noise that is known from data before the prediction, by output."""
    bounds: dict[str, tuple[float | None, float | None]] = field(default_factory=dict)
    """Where sensors clip, lowest and highest value by output: scores compare with what such a sensor would show."""

    @cached_property
    def scored(self) -> tuple[str, ...]:
        """Outputs that were measured."""
        return tuple(name for name in self.outputs if name in self.record.outputs)

    def rmse(self, output: str | None = None) -> "Scores":
        """Root mean square error of each particle."""
        return self._scores(output, lambda error, measured: np.sqrt(np.nanmean(error**2, axis=1)))

    def nrmse(self, output: str | None = None) -> "Scores":
        """The same relative to the standard deviation of the measured output."""
        return self._scores(output, lambda error, measured: np.sqrt(np.nanmean(error**2, axis=1)) / np.nanstd(measured))

    def fit(self, output: str | None = None) -> "Scores":
        """Fit in percent, 100 (1 - NRMSE): 100 is perfect, 0 is as good as the mean."""
        return self._scores(
            output, lambda error, measured: 100 * (1 - np.sqrt(np.nanmean(error**2, axis=1)) / np.nanstd(measured))
        )

    def mean(self, output: str | None = None) -> Float[np.ndarray, " sample"]:
        """Posterior mean of a simulated output."""
        return self.weights @ self.outputs[self._output(output)]

    def band(self, level: float = 0.9, output: str | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of an interval that holds `level` of the posterior, at every sample."""
        values = self.outputs[self._output(output)]
        check_level("level", level)
        low, high = weighted_quantile(values, self.weights, [(1 - level) / 2, (1 + level) / 2])
        return low, high

    def plot(self, path: str | Path | None = None, *, output: str | None = None) -> "Figure":
        """Measured and simulated output with a 90 % band, and the error; of the first measured output if none is
        named."""
        from probsysid.report.figures.prediction import plot_fit

        return plot_fit(self, path, output=output)

    def _repr_html_(self) -> str:
        return html(simulation_card(self))

    def __repr__(self) -> str:
        names = ", ".join(self.outputs)
        return f"Simulation of {names}: {len(self.weights)} particles, {self.record.samples} samples"

    def _output(self, output: str | None) -> str:
        names = tuple(self.outputs)
        if output is None and (len(names) == 1 or len(self.scored) == 1):
            return names[0] if len(names) == 1 else self.scored[0]
        if output not in names:
            raise InputError(f"output is {output!r}; name one of: {', '.join(names)}.")
        return output

    def _scores(self, output: str | None, score: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> "Scores":
        name = self._output(output)
        if name not in self.record.outputs:
            raise InputError(f"the record has no measured {name!r} to compare with.")
        measured = np.asarray(self.record.outputs[name])[self.skip :]
        simulated = self.outputs[name][:, self.skip :]
        if name in self.bounds:
            simulated = np.clip(simulated, *self.bounds[name])
        error = simulated - measured
        with np.errstate(divide="ignore", invalid="ignore"):  # an output that is constant has no spread to compare with
            return Scores(score(error, measured), self.weights)


@dataclass(frozen=True, eq=False)
class Scores:
    """A number for each particle; particles whose simulation blew up have NaN and are counted apart."""

    values: Float[np.ndarray, " particle"]
    weights: Float[np.ndarray, " particle"]

    @property
    def min(self) -> float:
        return float(np.nanmin(self.values))

    @property
    def max(self) -> float:
        return float(np.nanmax(self.values))

    @property
    def mean(self) -> float:
        """Mean over the posterior."""
        good = np.isfinite(self.values)
        return float(self.weights[good] @ self.values[good] / np.sum(self.weights[good])) if good.any() else np.nan

    @property
    def failed(self) -> int:
        """Particles whose simulation is not finite."""
        return int(np.sum(~np.isfinite(self.values)))

    def __repr__(self) -> str:
        return f"Scores(min={self.min:.4g}, mean={self.mean:.4g}, max={self.max:.4g}, failed={self.failed})"

    def to_series(self) -> pd.Series:
        return pd.Series({"min": self.min, "mean": self.mean, "max": self.max})


def simulate(
    model: Model,
    parameters: Mapping[str, Float[np.ndarray, "*_shape particle"]],
    initial: Float[np.ndarray, "component particle"],
    record: Record,
    steps: int | None = None,
    process_noise: Mapping[str, Float[np.ndarray, " particle"]] | None = None,
    seed: int = 0,
) -> tuple[dict[str, Float[np.ndarray, "particle sample"]], int, float]:
    """Outputs of every particle at every sample, the number of steps per sample, and the estimated relative error.

    The steps and their error are those of the ODE; with process noise there are at least `NOISY_STEPS`.
    """
    check_jax()
    model.check_inputs(record.input_names)
    pilots = jax.tree.map(lambda leaf: leaf[..., :PILOTS], (dict(parameters), initial))
    error = float("nan")
    if steps is None:
        steps, error = _fine_enough(model, pilots[0], pilots[1], record)
        steps = max(steps, NOISY_STEPS) if process_noise else steps
    values = _run(model, dict(parameters), initial, record, steps, Forces.of(model, process_noise or {}, seed))
    return {name: np.asarray(values[:, j]).T for j, name in enumerate(model.output_names)}, steps, error


def _fine_enough(model: Model, parameters: Mapping[str, Scalar], initial: Numbers, record: Record) -> tuple[int, float]:
    """Steps per sample at which the outputs of the pilots do not change any more, and the remaining error.

    The error of order four falls sixteenfold on halving, hence the division by fifteen.
    """
    steps = 1
    coarse = _run(model, parameters, initial, record, steps)
    while True:
        fine = _run(model, parameters, initial, record, 2 * steps)
        reach = np.nanmax(np.abs(np.where(np.isfinite(fine), fine, np.nan)), initial=1e-300)
        change = np.abs(fine - coarse) / reach
        worst = float(np.max(np.where(np.isfinite(change), change, np.inf), initial=0.0))
        if worst <= ACCURACY or 2 * steps >= MOST_STEPS:
            return 2 * steps, worst / 15
        steps, coarse = 2 * steps, fine


class Forces(NamedTuple):
    """White-noise forces of all particles: a random key each, and the level by coordinate."""

    key: Any
    """Of shape (2, particle); None without forces."""
    levels: dict[int, np.ndarray]

    @classmethod
    def of(cls, model: Model, levels: Mapping[str, np.ndarray], seed: int) -> "Forces":
        places = {list(model.coordinates).index(name): np.asarray(level) for name, level in levels.items()}
        if not places:
            return cls(None, {})
        count = len(next(iter(places.values())))
        keys = jax.random.key_data(jax.random.split(jax.random.key(seed), count))
        return cls(np.asarray(keys).T, places)


def kicks(model: Model, forces: Forces, place: Index, length: Scalar) -> Array:
    """The change of the physical components by the forces of one step."""
    key = jax.random.fold_in(jax.random.wrap_key_data(forces.key), place)
    normals = {c: jax.random.normal(jax.random.fold_in(key, c), (model.orders[c],)) for c in forces.levels}
    return kicked(model, forces.levels, normals, length)


def kicked(model: Model, levels: Mapping[int, Numbers], normals: Mapping[int, Array], length: Scalar) -> Array:
    """The change of the physical components by white-noise forces over some time, from standard normal numbers: exact
    where the ODE does not answer them."""
    changes = [jnp.zeros(order) for order in model.orders]
    for c, level in levels.items():
        order = model.orders[c]
        scales = jnp.stack([length ** (order - 0.5 - i) / factorial(order - 1 - i) for i in range(order)])
        changes[c] = level * scales * (iwp.process_factor(order - 1) @ normals[c])
    return jnp.concatenate(changes)


class IntervalInputs(NamedTuple):
    """Inputs and times of intervals, one for each sample: the interval that ends there."""

    grid: Numbers
    """At the middle and the end of every step, seen from the left."""
    now: Numbers
    before: Numbers
    length: Numbers
    """Of one step."""

    @classmethod
    def of(cls, model: Model, record: Record, steps: int) -> "IntervalInputs":
        used = [record.input_names.index(name) for name in model.input_names]
        now = record.input_derivatives(0)[:, used, 0]
        before = now[np.maximum(np.arange(record.samples) - 1, 0)]
        return cls(record.input_grid(2 * steps)[:, :, used], now, before, step_lengths(record) / steps)


def _run(
    model: Model,
    parameters: Mapping[str, Scalar],
    initial: Numbers,
    record: Record,
    steps: int,
    forces: Forces = Forces(None, {}),
) -> np.ndarray:
    inputs = IntervalInputs.of(model, record, steps)
    return np.asarray(_integrate(model, steps)(parameters, jnp.asarray(initial), forces, inputs))


@lru_cache(maxsize=32)
def _integrate(model: Model, steps: int) -> Callable[..., Array]:
    """The compiled simulator of a model."""
    return jax.jit(_simulator(model, steps))


def first_order_rates(model: Model, state: Numbers, inputs: Vector, parameters: Mapping[str, Scalar]) -> Array:
    """Time derivatives of all physical components: the model as a system of first order."""
    highest = model.highest_derivatives(list(state), list(inputs), parameters)
    rates, offset = [], 0
    for order, top in zip(model.orders, highest, strict=True):
        rates += [*state[offset + 1 : offset + order], top]
        offset += order
    return jnp.stack(rates)


def outputs_at(model: Model, state: Numbers, inputs: Vector, parameters: Mapping[str, Scalar]) -> Array:
    """What the model's outputs are in a state."""
    physical = list(state)
    highest = model.highest_derivatives(physical, list(inputs), parameters)
    return jnp.stack(model.measured(physical, highest, list(inputs), parameters))


NODES, WEIGHTS = (0.0, 0.5, 0.5, 1.0), (1 / 6, 1 / 3, 1 / 3, 1 / 6)
"""Classical Runge-Kutta of order four: where its stages are evaluated, and how much each counts."""


def over_interval(
    model: Model,
    steps: int,
    state: Numbers,
    parameters: Mapping[str, Scalar],
    inputs: IntervalInputs,
    forces: Forces,
    place: Index,
) -> Array:
    """The state at the end of an interval; `place` is the number of its first step, for the random forces.

    The stages of a step are a loop: written out, XLA fuses them, and the program of an equation that reads its state in
    many terms grows with their number to the fourth power (docs/decisions.md).
    """
    rate = partial(first_order_rates, model)
    ends, length = jnp.concatenate([inputs.before[None], inputs.grid]), inputs.length

    nodes, weights = jnp.asarray(NODES), jnp.asarray(WEIGHTS)

    def step(j: Index, state: Array) -> Array:
        def stage(i: Index, carry: tuple[Array, Array]) -> tuple[Array, Array]:
            latest, total = carry
            latest = rate(state + nodes[i] * length * latest, ends[2 * j + (i + 1) // 2], parameters)
            return latest, total + weights[i] * latest

        nothing = jnp.zeros_like(state)
        state = state + length * lax.fori_loop(0, len(NODES), stage, (nothing, nothing))[1]
        return state + kicks(model, forces, place + j, length) if forces.levels else state

    return lax.fori_loop(0, steps, step, state)


def _simulator(model: Model, steps: int) -> Callable[..., Array]:
    def one(parameters: Mapping[str, Scalar], start: Numbers, forces: Forces, inputs: IntervalInputs) -> Array:
        def sample(state: Numbers, item: tuple[IntervalInputs, Array]) -> tuple[Array, Array]:
            inputs, index = item
            state = over_interval(model, steps, state, parameters, inputs, forces, steps * index)
            return state, outputs_at(model, state, inputs.now, parameters)

        first = outputs_at(model, start, inputs.now[0], parameters)
        later = IntervalInputs(*(part[1:] for part in inputs))
        _, rest = lax.scan(sample, start, (later, jnp.arange(len(later.now))))
        return jnp.concatenate([first[None], rest])

    def run(parameters: Mapping[str, Scalar], initial: Numbers, forces: Forces, inputs: IntervalInputs) -> Array:
        batched = jax.vmap(one, in_axes=(-1, -1, -1, None), out_axes=-1)

        def block(part: tuple[Mapping[str, Scalar], Numbers, Forces]) -> Array:
            parameters, initial, forces = part
            return batched(parameters, initial, forces, inputs)

        return map_blocks(block, (parameters, initial, forces), BLOCK)

    return run
