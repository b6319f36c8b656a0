"""Terms that a model leaves out, found by what their absence does to a free run.

A term with a small coefficient a, added to an equation or to an output, changes the free run by a times its
sensitivity.  The errors of the free run are regressed on the sensitivities of everything that was inferred, which may
move to make room, and on that of one term at a time: the test of Lagrange multipliers.  What a term explains of the
errors that the others leave at the least squares is its share.  Errors from a random force have no term that explains
much of them.
"""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree
from jaxtyping import Float

from probsysid.data.record import Record
from probsysid.model.equations import parse
from probsysid.model.model import Model
from probsysid.model.namespaces import Namespace
from probsysid.posterior.diagnostics.residuals import analyse
from probsysid.posterior.initial_states import with_states_alone
from probsysid.posterior.simulate import Forces, IntervalInputs, outputs_at, over_interval, simulate

EXPLAINED = 0.4
"""Share of the errors from which a term is named.  On simulated oscillators, a term that was left out explains 0.57 to
0.99 of them; the best of 17 terms 0.03 to 0.19 of those that a white force leaves (eight records of 400 samples)."""

LEVEL = 0.98
"""Terms that explain this fraction of what the best one does are its equals; the first of them in the list is named."""

ABSORBED = 1e-4
"""Part of a sensitivity, relative to its size, below which parameters can take its place."""

LONGEST = 4000
"""Samples that are looked at."""

ITERATIONS, STRIDES, LEAST_GAIN = 10, (1.0, 0.5, 0.2, 0.05), 1e-3
"""Gauss-Newton steps, lengths that are tried, and the relative gain below which they end."""

ROUNDED = 0.02
"""Speed, relative to the largest, below which dry friction is rounded off: `sign` would chatter at standstill."""

MEMORY = 0.999
"""Largest correlation from sample to sample that is told from one."""

CLOCK, COEFFICIENTS, DELAY = "clock", "coefficients", "delay"


class Term(NamedTuple):
    """What may be added, with an unknown coefficient."""

    place: str
    """A coordinate, for its equation, an output, or an input that comes late."""
    text: str
    """As in study files; `clock` is the time since the first sample, `1` a constant, `delay` one sample of delay."""
    in_output: bool = False


class MissingTerm(NamedTuple):
    """A term that explains the errors."""

    term: Term
    share: float
    coefficient: float


class PointEstimate(NamedTuple):
    """The values of a model's quantities on a record, and which of them were inferred."""

    parameters: Mapping[str, np.ndarray]
    initial: Mapping[str, np.ndarray]
    """By physical component."""
    noise: Mapping[str, float]
    inferred: frozenset[str]
    """Names of parameters and components."""


class FreeRunErrors(NamedTuple):
    """What the free run leaves when everything that was inferred is adjusted, in units of the noise."""

    spread: dict[str, float]
    """Their standard deviation, by measured output."""
    white: bool
    missing: MissingTerm | None = None
    """The term that explains most of them, if it explains enough."""
    memory: Mapping[str, float] = MappingProxyType({})
    """Their correlation time as first-order autoregressive noise, by measured output, where they have one."""


def examine(model: Model, record: Record, estimate: PointEstimate) -> FreeRunErrors | None:
    """The errors of a free run and the term that explains them; None where the run does not stay finite."""
    if CLOCK in (*model.parameter_names, *model.input_names):
        return None
    record = record[: min(record.samples, LONGEST)]
    sizes, steps = _sizes(model, record, estimate)
    terms = candidates(model, sizes)
    sensitivities, errors = _linearised(model, terms, record, estimate, steps)
    terms += [Term(name, DELAY) for name in _delayed(model, record)]
    if sensitivities is None or len(errors) <= sensitivities.shape[1]:
        return None
    own, extra = sensitivities[:, : -len(terms)], sensitivities[:, -len(terms) :]
    basis, singular, _ = np.linalg.svd(own / np.maximum(np.linalg.norm(own, axis=0), 1e-300), full_matrices=False)
    basis = basis[:, singular > 1e-8 * np.max(singular, initial=0.0)]
    left, rest = errors - basis @ (basis.T @ errors), extra - basis @ (basis.T @ extra)
    of_outputs = _by_output(model, record, left)
    spread = {name: float(np.std(values)) for name, values in of_outputs.items()}
    if _white(of_outputs):
        return FreeRunErrors(spread, True)
    memory = {name: correlation_time(record, name, values) for name, values in of_outputs.items()}
    memory = {name: time for name, time in memory.items() if time > 0}
    return FreeRunErrors(spread, False, _best_term(model, record, terms, left, rest, extra), memory)


def correlation_time(record: Record, output: str, errors: np.ndarray) -> float:
    """From their correlation from one measured sample to the next; zero where it is not positive."""
    times = record.time[np.isfinite(np.asarray(record.outputs[output]))]
    size = float(errors @ errors)
    memory = float(errors[1:] @ errors[:-1]) / size if len(errors) > 1 and size > 0 else 0.0
    return float(np.median(np.diff(times)) / -np.log(min(memory, MEMORY))) if memory > 0 else 0.0


def _best_term(
    model: Model, record: Record, terms: list[Term], left: np.ndarray, rest: np.ndarray, extra: np.ndarray
) -> MissingTerm | None:
    """Of the errors that are left and the sensitivities that are, and were."""
    size = np.linalg.norm(rest, axis=0)
    free = size > ABSORBED * np.maximum(np.linalg.norm(extra, axis=0), 1e-300)
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.where(free, (rest.T @ left) ** 2 / size**2 / (left @ left), 0.0)
    best = int(np.argmax(shares >= LEVEL * shares.max()))
    coefficient = float(rest[:, best] @ left / size[best] ** 2) if free[best] else 0.0
    after = _by_output(model, record, left - coefficient * rest[:, best])
    if shares[best] < EXPLAINED and not _white(after):
        return None
    return MissingTerm(terms[best], float(shares[best]), coefficient)


def _by_output(model: Model, record: Record, errors: Float[np.ndarray, " known"]) -> dict[str, np.ndarray]:
    """Errors of measured samples, output by output."""
    names = [name for name in model.output_names if name in record.outputs]
    known = np.stack([np.isfinite(np.asarray(record.outputs[name])) for name in names], axis=1)
    column = np.nonzero(known)[1]
    return {name: errors[column == j] for j, name in enumerate(names)}


def _white(errors: Mapping[str, np.ndarray]) -> bool:
    """Whether the errors of every output are white, of those that have enough to judge."""
    found = [analyse(values) for values in errors.values()]
    return all(residuals is None or residuals.white for residuals in found)


def _sizes(model: Model, record: Record, estimate: PointEstimate) -> tuple[dict[str, float], int]:
    """Largest size of every physical component in free run, and the steps per sample that this takes."""
    columns = {name: np.asarray(value)[..., None] for name, value in estimate.parameters.items()}
    start = np.array([[estimate.initial[name]] for name in model.physical_names], dtype=float)
    states, steps, _ = simulate(with_states_alone(model), columns, start, record)
    return {name: float(np.max(np.abs(values))) for name, values in states.items()}, steps


def candidates(model: Model, sizes: Mapping[str, float] = MappingProxyType({})) -> list[Term]:
    """Terms of one component, of one input, of time, and constants: the plainest first.

    `sizes` of components, where they are known, give the speed below which dry friction is rounded off.
    """
    found = []
    for coordinate in [name for name in model.coordinates if name != CLOCK]:
        components = [name for name in model.physical_names if name != CLOCK]
        texts = ["1", *components, *model.input_names, CLOCK]
        texts += [form.format(v) for v in components for form in ("{0}**2", "{0}**3", "{0}*abs({0})")]
        texts += [f"{u}**2" for u in model.input_names]
        speeds = [f"d{name}" for name, order in model.coordinates.items() if order == 2]
        known = {speed: sizes[speed] for speed in speeds if np.isfinite(sizes.get(speed, np.nan)) and sizes[speed] > 0}
        texts += [f"tanh({speed}/{ROUNDED * size:.1g})" for speed, size in known.items()]
        found += [Term(coordinate, text) for text in texts]
    for output in model.output_names:
        found += [Term(output, text, in_output=True) for text in ("1", CLOCK, *model.input_names)]
    return found


def _linearised(
    model: Model, terms: list[Term], record: Record, estimate: PointEstimate, steps: int
) -> tuple[np.ndarray | None, np.ndarray]:
    """Sensitivities of the outputs to what was inferred and to coefficients, and the errors, in units of the noise; no
    sensitivities where the free run does not stay finite."""
    wider = _extended(model, terms)
    inputs = IntervalInputs.of(wider, record, steps)
    late = [IntervalInputs.of(wider, changed, steps) for changed in _delayed(model, record).values()]
    values = {**{CLOCK: 0.0}, **estimate.initial}
    moving = [
        {name: jnp.asarray(value, float) for name, value in given.items() if name in estimate.inferred}
        for given in (estimate.initial, estimate.parameters)
    ]
    flat, rebuild = ravel_pytree([moving, jnp.zeros(len(terms))])

    def outputs(unknown: Any, inputs: IntervalInputs) -> Any:
        (begin, own), extra = rebuild(unknown)
        state = jnp.stack([jnp.asarray({**values, **begin}[name], float) for name in wider.physical_names])
        return _free_run(wider, steps, state, {**estimate.parameters, **own, COEFFICIENTS: extra}, inputs)

    scales = np.array([estimate.noise[name] for name in model.output_names])
    nothing = np.full(record.samples, np.nan)
    measured = np.stack([np.asarray(record.outputs.get(name, nothing)) for name in model.output_names], axis=1)
    known = np.isfinite(measured).ravel()
    simulated, slopes = jax.jit(outputs), jax.jit(jax.jacfwd(outputs))

    def errors_at(unknown: Any, inputs: IntervalInputs = inputs) -> np.ndarray:
        return ((measured - np.asarray(simulated(unknown, inputs))) / scales).ravel()[known]

    def slopes_at(unknown: Any) -> np.ndarray:
        return (np.asarray(slopes(unknown, inputs)) / scales[:, None]).reshape(len(known), -1)[known]

    unknown, found, errors = _at_least_squares(np.asarray(flat), len(terms), errors_at, slopes_at)
    if found is not None:
        found = np.column_stack([found, *(errors - errors_at(unknown, changed) for changed in late)])
    return found, errors


def _delayed(model: Model, record: Record) -> dict[str, Record]:
    """The record with each of its sampled inputs a sample later; none where samples are not equidistant."""
    if record.dt is None:
        return {}
    arrays = {name: np.asarray(record.inputs[name]) for name in model.input_names if not callable(record.inputs[name])}
    return {
        name: record.replace(inputs={**record.inputs, name: np.concatenate([values[:1], values[:-1]])})
        for name, values in arrays.items()
    }


def _at_least_squares(
    unknown: np.ndarray,
    terms: int,
    errors_at: Callable[[np.ndarray], np.ndarray],
    slopes_at: Callable[[np.ndarray], np.ndarray],
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
    """Unknowns, sensitivities and errors after Gauss-Newton steps of all but the coefficients, while they help: the
    posterior is not at the least squares of the free run where the noise was given too low."""
    errors, slopes = errors_at(unknown), slopes_at(unknown)
    for _ in range(ITERATIONS):
        if not (np.all(np.isfinite(errors)) and np.all(np.isfinite(slopes))):
            return unknown, None, errors
        step = np.linalg.lstsq(slopes[:, : slopes.shape[1] - terms], errors, rcond=1e-10)[0]
        trials = [unknown + np.append(length * step, np.zeros(terms)) for length in STRIDES]
        found = [errors_at(trial) for trial in trials]
        costs = [np.sum(each**2) if np.all(np.isfinite(each)) else np.inf for each in found]
        best = int(np.argmin(costs))
        if not costs[best] < (1 - LEAST_GAIN) * np.sum(errors**2):
            break
        unknown, errors = trials[best], found[best]
        slopes = slopes_at(unknown)
    finite = np.all(np.isfinite(errors)) and np.all(np.isfinite(slopes))
    return unknown, (slopes if finite else None), errors


def _free_run(model: Model, steps: int, start: Any, parameters: Any, inputs: IntervalInputs) -> Any:
    later = IntervalInputs(*(part[1:] for part in inputs))

    def sample(state: Any, here: IntervalInputs) -> tuple[Any, Any]:
        state = over_interval(model, steps, state, parameters, here, Forces(None, {}), 0)
        return state, outputs_at(model, state, here.now, parameters)

    _, rest = lax.scan(sample, start, later)
    return jnp.concatenate([outputs_at(model, start, inputs.now[0], parameters)[None], rest])


def _extended(model: Model, terms: list[Term]) -> Model:
    """The model with every term, and a coordinate that counts time."""
    parsed = [(parse(term.text), term) for term in terms]
    assert model.outputs is not None
    measured = model.outputs

    def added(values: dict[str, Any], s: Any, u: Any, p: Any, in_output: bool) -> dict[str, Any]:
        for index, (equation, term) in enumerate(parsed):
            if term.in_output == in_output:
                given = {n: u[n] if n in model.input_names else s[n] for n in equation.names}
                values[term.place] = values[term.place] + p[COEFFICIENTS][index] * equation.evaluate(given)
        return values

    def dynamics(s: Any, u: Any, p: Any) -> dict[str, Any]:
        own = Namespace("state", {name: s[name] for name in model.physical_names})
        return {CLOCK: jnp.ones(()), **added(dict(model.dynamics(own, u, p)), s, u, p, False)}

    def outputs(s: Any, u: Any, p: Any) -> dict[str, Any]:
        own = Namespace("state", {name: s[name] for name in (*model.physical_names, *model.highest_names)})
        return added(dict(measured(own, u, p)), s, u, p, True)

    coordinates = {**model.coordinates, **({} if CLOCK in model.coordinates else {CLOCK: 1})}
    return Model(coordinates, dynamics, outputs, shapes={**model.shapes, COEFFICIENTS: (len(terms),)}, name=model.name)


def as_python(model: Model, text: str) -> str:
    """A term as written in a model's functions: `x**2` as `s.x**2`."""
    names = {name: f"s.{name}" for name in (*model.physical_names, CLOCK)} | {n: f"u.{n}" for n in model.input_names}
    names["tanh"] = "jnp.tanh"
    return re.sub(r"[A-Za-z_]\w*", lambda found: names.get(found[0], found[0]), text)
