"""Doubts about a model, and what to do about them: which part is wrong, with the line to add.

One-step prediction errors that are white but too large mean that the noise was given too low; white ones with a few
that are far off, that there are outliers.  Errors that are not
white come from the model: a term of it is missing, if one explains the errors of the free run (`missing_terms.py`), or
else a random force.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from probsysid._internal.validation import is_real
from probsysid.data.record import Record
from probsysid.data.sensor_limits import sensor_limits
from probsysid.model.model import Model
from probsysid.model.noise import forms, level_of
from probsysid.model.problem import Problem
from probsysid.model.stored_model import equations_of
from probsysid.posterior.diagnostics.missing_terms import (
    CLOCK,
    DELAY,
    FreeRunErrors,
    MissingTerm,
    PointEstimate,
    as_python,
    examine,
)
from probsysid.posterior.diagnostics.residuals import DOUBTFUL, FAR, TOO_WIDE, Residuals, analyse
from probsysid.posterior.draws import draw_indices
from probsysid.posterior.simulate import simulate

DRAWS = 64
"""Of the posterior and of the prior, of which the one with the best free run is looked at."""

WIDENED = 3.0
"""Standard deviation of a new coefficient's prior, relative to its estimate."""

BOUNDS = {"lower": "smallest", "upper": "largest"}
"""Options of `Noise`, and which values they bound."""

LETTERS = ("a", "b", "d", "g", "q", *(f"a{i}" for i in range(1, 100)))
"""Names for a new coefficient."""


def find_doubts(
    errors: Sequence[Float[np.ndarray, "_sample output"]],
    problem: Problem,
    records: Sequence[Record],
    theta: Float[np.ndarray, "dimension particle"],
    weights: Float[np.ndarray, " particle"],
    fixed_steps: bool,
    adequate: bool = True,
) -> list[str]:
    """Sentences about prediction errors that contradict the model or the given noise, over all records.

    `adequate` says whether the integration is: where it is not, a few large errors may be its own.
    """
    sentences = []
    for index, values in enumerate(errors):
        columns = zip(problem.model.output_names, values.T, strict=True)
        found = {output: residuals for output, column in columns if (residuals := analyse(column)) is not None}
        doubtful = [output for output, residuals in found.items() if residuals.probability < DOUBTFUL]
        seen = free_run_errors(problem, records[index], index, theta, weights) if doubtful else None
        for output, residuals in found.items():
            name = output if len(errors) == 1 else f"{output} of record {index}"
            given = level_of(problem.noise[output]) if output in problem.noise else None
            level = float(given) if is_real(given) else None  # type: ignore[arg-type]
            limits = unknown_limits(records[index], output, problem)
            sentence = outliers_doubt(name, output, residuals, problem) if adequate else ""
            sentence = sentence or doubt(name, output, residuals, level, problem, seen, fixed_steps, limits)
            sentences += [sentence] if sentence else []
    return sentences


def doubt(
    name: str,
    output: str,
    residuals: Residuals,
    noise: float | None,
    problem: Problem,
    seen: FreeRunErrors | None = None,
    fixed_steps: bool = False,
    limits: Mapping[str, float] | None = None,
) -> str:
    """What an output's errors say, and the remedy; empty where nothing is wrong.

    `noise` is its level where it is fixed, `seen` what was found in free run where one-step errors are not white,
    `limits` what its sensor seems to do and its noise has not been told.
    """
    white = residuals.probability >= DOUBTFUL
    spread = residuals.spread
    if not white and seen is not None and seen.white:  # too much noise, which the filter took for integration error
        spread = max(spread, seen.spread.get(output, 0.0))
    wide = noise is not None and spread > TOO_WIDE
    if white and not wide:
        return ""
    if limits and limits.keys() & BOUNDS.keys():  # errors from clipping look like anything
        large = f"prediction errors of {name!r} are {spread:.2g} times too large."
        return f"{large if white else _not_white(name, residuals)} {limits_remedy(output, limits)}"
    parts = []
    if wide:
        assert noise is not None
        parts.append(
            f"the noise of {name!r} is fixed at {noise:.3g}, and prediction errors are {spread:.2g} times as large as "
            "noise and integration error allow: the posterior is far too narrow and may be far off."
        )
        alone = white or (seen is not None and seen.white)
        parts += [] if alone else ["They are not white.", model_remedy(problem, seen, output)]
        parts.append(f"Let the noise be inferred, {_noise_lines(output, noise * spread, problem)}.")
    else:
        parts.append(_not_white(name, residuals))
        if noise is not None and (seen is None or seen.missing is None):
            lines = _noise_lines(output, 10 * noise, problem)
            parts.append(
                f"The noise is fixed at {noise:.3g}: far too low, that alone would do it; let it be inferred, {lines}."
            )
        parts.append(model_remedy(problem, seen, output))
    if not white and fixed_steps:
        parts.append("The integration steps are fixed: rule them out with substeps='auto'.")
    return " ".join(parts)


def unknown_limits(record: Record, output: str, problem: Problem) -> dict[str, float]:
    """What the sensor of an output seems to do that its noise does not know."""
    if output not in record.outputs:
        return {}
    given = problem.noise.get(output)
    found = sensor_limits(np.asarray(record.outputs[output], dtype=float))
    return {key: value for key, value in found.items() if getattr(given, key, None) is None}


def limits_remedy(output: str, limits: Mapping[str, float]) -> str:
    """What to write for a sensor that clips."""
    ends = " and ".join(f"its {word} value {limits[key]:.6g}" for key, word in BOUNDS.items() if key in limits)
    bounds = {key: limits[key] for key in BOUNDS if key in limits}
    study = ", ".join(f"{key} = {value!r}" for key, value in bounds.items())
    python = ", ".join(f"{key}={value!r}" for key, value in bounds.items())
    return (
        f"Many values in a row are {ends}, as of a sensor that clips. If it does, tell its noise, in a study: "
        f"`[noise] {output} = {{ {study} }}`; in Python: `noise={{{output!r}: Noise({python})}}`."
    )


def outliers_doubt(name: str, output: str, residuals: Residuals, problem: Problem) -> str:
    """What to do about a few values that are far off and make Gaussian noise wide for all; empty where there are none,
    or where errors are not white, so that more than outliers is wrong."""
    count, verb = residuals.outliers, "is" if residuals.outliers == 1 else "are"
    if not count or residuals.probability < DOUBTFUL or output in forms(problem.noise):
        return ""
    return (
        f"{count} of {len(residuals.values)} prediction errors of {name!r} {verb} more than {FAR:.0f} times as large "
        f"as most ({residuals.bulk:.2g} of the standard deviation that the noise has): a few outliers decide on the "
        "noise, and with it on everything else. Look at them; if they are to stay, take Student-t noise, in a study: "
        f"`[noise] {output} = {{ degrees = \"auto\" }}`; in Python: `noise={{{output!r}: Noise(degrees='auto')}}`."
    )


def _noise_lines(output: str, level: float, problem: Problem) -> str:
    """What to write for a noise level to be inferred."""
    if output in forms(problem.noise):
        return "leaving its level out, which gives it a wide prior"
    study = f'[noise] {output} = "LogNormal(log({level:.2g}), 1)"'
    return f"in a study: `{study}`; in Python: `noise={{{output!r}: dist.LogNormal(np.log({level:.2g}), 1)}}`"


def _not_white(output: str, residuals: Residuals) -> str:
    lag = 1 + int(np.argmax(np.abs(residuals.correlation)))
    return (
        f"one-step prediction errors of {output!r} are not white (correlation {residuals.correlation[lag - 1]:.2f} at "
        f"lag {lag}, Ljung-Box p = {residuals.probability:.1g}): the data disagree with the model more than noise and "
        "integration error allow."
    )


def free_run_errors(
    problem: Problem,
    record: Record,
    index: int,
    theta: Float[np.ndarray, "dimension particle"],
    weights: Float[np.ndarray, " particle"],
) -> FreeRunErrors | None:
    """What the best draw leaves of a training record in free run; None with process noise, which a free run lacks, and
    where noise is not plainly Gaussian, so that squared errors do not tell."""
    unfit = problem.disturbed or forms(problem.noise)
    estimate = None if unfit else _best_draw(problem, record, index, theta, weights)
    return None if estimate is None else examine(problem.model, record, estimate)


def model_remedy(problem: Problem, seen: FreeRunErrors | None, output: str) -> str:
    """What to change in a model whose errors of an output are not white."""
    if problem.process_noise:
        return "Its process noise does not account for them: compare it with a richer model by evidence."
    if problem.latent:
        latent = ", ".join(repr(process.name) for process in problem.latent.processes)
        return (
            f"What is unknown or drifts ({latent}) does not account for them: compare other kernels by evidence, a "
            "rougher one (nu = 0.5), or a quasi-periodic one for an input in a narrow band; or a richer model."
        )
    if seen is not None and seen.missing is not None:
        return (
            delay_remedy(seen.missing) if seen.missing.term.text == DELAY else term_remedy(problem.model, seen.missing)
        )
    if seen is not None and seen.white:
        return (
            "In free run they are white: it is not the model but the integration; take more steps, or substeps='auto'."
        )
    order = max(problem.model.orders)
    names = [name for name, own in problem.model.coordinates.items() if own == order]
    study = ", ".join(f'`[process_noise] {name} = "auto"`' for name in names)
    python = ", ".join(f'"{name}": "auto"' for name in names)
    why = "No single term of the state, the inputs or time explains them: a random force is missing. "
    if seen is None and forms(problem.noise):
        why = ""
    remedy = f"{why}Add process noise, in a study: {study}; in Python: `process_noise={{{python}}}`."
    if seen is None or output not in seen.memory:
        return remedy
    prior = f"LogNormal(log({seen.memory[output]:.2g}), 1)"
    python = f"noise={{{output!r}: Noise(time=dist.LogNormal(np.log({seen.memory[output]:.2g}), 1))}}"
    return (
        f"{remedy} Or, if it is the sensor that drifts, make its noise coloured, in a study: "
        f'`[noise] {output} = {{ time = "{prior}" }}`; in Python: `{python}`. The evidence tells which.'
    )


def delay_remedy(missing: MissingTerm) -> str:
    """An input that comes late; no model is at fault, but the record."""
    name, samples = missing.term.place, missing.coefficient
    shift = (
        f"np.interp(t - {samples:.3g} * dt, t, {name})"
        if samples > 0
        else f"np.interp(t + {-samples:.3g} * dt, t, {name})"
    )
    return (
        f"The input {name!r} seems to act {abs(samples):.2g} samples {'later' if samples > 0 else 'earlier'} than the "
        f"record says, which explains {100 * missing.share:.0f} % of the free run's errors: look at its time stamps, "
        f"filters and dead time. To try it, shift the column by as much, in Python: `{shift}`."
    )


def term_remedy(model: Model, missing: MissingTerm) -> str:
    """The term that is missing, with the lines to add."""
    term, clock = missing.term, missing.term.text == CLOCK and CLOCK not in model.coordinates
    taken = {*model.physical_names, *model.highest_names, *model.input_names, *model.output_names}
    letter = next(name for name in LETTERS if name not in taken | set(model.parameter_names))
    scale = f"{WIDENED * abs(missing.coefficient):.1g}"
    product = letter if term.text == "1" else f"{letter}*{term.text}"
    written = equations_of(model)
    texts: Mapping[str, Any] = {} if written is None else written.outputs if term.in_output else written.equations
    old = texts[term.place].text if term.place in texts else "..."
    table = "outputs" if term.in_output else "equations"
    lines = [f'`[model.{table}] {term.place} = "{old} + {product}"`', f'`[parameters] {letter} = "Normal(0, {scale})"`']
    if clock:
        lines = [
            "`[model.coordinates] clock = 1`",
            '`[model.equations] clock = "1"`',
            "`[initial] clock = 0.0`",
            *lines,
        ]
    place = f"the {'output' if term.in_output else 'equation of'} {term.place!r}"
    what = {"1": "A constant", CLOCK: "A drift in time"}.get(term.text, f"A term in {term.text}")
    if term.text.startswith("tanh("):
        what = f"Dry friction, a term in {term.text},"
    python = f"p.{letter}" if term.text == "1" else f"p.{letter} * {as_python(model, term.text)}"
    time = ' and a coordinate `"clock": 1` with the equation `jnp.ones(())` and the initial value 0' if clock else ""
    return (
        f"{what} is missing from {place}, which explains {100 * missing.share:.0f} % of the free run's errors. Add it, "
        f"in a study: {', '.join(lines)}; in Python: add `{python}` to {place}, with the prior "
        f'`"{letter}": dist.Normal(0, {scale})`{time}.'
    )


def _best_draw(
    problem: Problem, record: Record, index: int, theta: np.ndarray, weights: np.ndarray
) -> PointEstimate | None:
    """The draw with the best free run on a training record, of the posterior and of the prior, which is the better one
    where the integration has gone astray; None where none stays finite."""
    chosen = np.unique(draw_indices(weights, min(DRAWS, len(weights))))
    drawn = np.hstack([theta[:, chosen], np.asarray(problem.space.sample(jax.random.key(0), DRAWS))])
    sampled = {name: np.asarray(value) for name, value in problem.space.values(drawn).items()}
    count, fixed = drawn.shape[1], problem.fixed(index)
    known = {name: np.repeat(np.asarray(value)[..., None], count, axis=-1) for name, value in fixed.items()} | sampled
    roles, model = problem.roles(index), problem.model
    parameters = {name: known[quantity] for name, quantity in roles.parameters}
    initial = np.stack([known[name] for name in roles.initial])
    noise = {output: known[f"noise.{output}"] for output in model.output_names}
    outputs, _, _ = simulate(model, parameters, initial, record)
    cost = np.zeros(count)
    for output in [name for name in model.output_names if name in record.outputs]:
        measured = np.asarray(record.outputs[output])
        error = np.where(np.isnan(measured), 0.0, outputs[output] - measured)
        cost += np.sum(np.isfinite(measured)) * np.log(np.maximum(np.sum(error**2, axis=1), 1e-300))
    if not np.isfinite(cost).any():
        return None
    best = int(np.nanargmin(cost))
    moving = [name for name, quantity in roles.parameters if quantity in sampled]
    moving += [name for name, quantity in zip(model.physical_names, roles.initial, strict=True) if quantity in sampled]
    return PointEstimate(
        {name: value[..., best] for name, value in parameters.items()},
        dict(zip(model.physical_names, initial[:, best], strict=True)),
        {name: float(value[best]) for name, value in noise.items()},
        frozenset(moving),
    )
