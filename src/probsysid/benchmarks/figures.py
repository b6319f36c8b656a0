"""The figures of a case study, by file name."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from probsysid.benchmarks.case import ScoringProtocol
from probsysid.benchmarks.evolution import PosteriorSnapshot
from probsysid.benchmarks.run import Outcome
from probsysid.odefilter.arrays.step import as_array_filter
from probsysid.odefilter.filter_inputs import prepare
from probsysid.odefilter.smoothing.trajectory import trace
from probsysid.posterior.draws import draw_indices
from probsysid.posterior.states import States
from probsysid.report.figures.corner import plot_corner
from probsysid.report.figures.degeneracy import plot_degeneracy
from probsysid.report.figures.evolution import plot_evolution
from probsysid.report.figures.marginals import plot_apart, plot_prior_posterior
from probsysid.report.figures.paths import plot_paths
from probsysid.report.figures.prediction import plot_prediction
from probsysid.report.figures.spectrum import plot_spectrum
from probsysid.report.html.formatting import labelled
from probsysid.smc.resampling import Systematic

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure

DRAWS = 48
PATH_DRAWS = 12
WINDOW_DRAWS = 6
MOST_SEGMENTS = 16


def pictures(outcome: Outcome) -> "Iterator[tuple[str, Figure]]":
    """Yield name and figure, so that each can be saved and closed before the next is made."""
    study, posterior = outcome.study, outcome.posterior
    names, units = list(posterior.columns), posterior.settings.units
    known = {**study.truth, **study.reference}
    yield "marginals", marginals(outcome)
    yield "corner", plot_corner(posterior, names, known)
    yield "evolution", plot_evolution(outcome.evolution.quantiles(posterior), names, units, known)
    ahead = one_step_predictions(outcome)
    yield "degeneracy", degeneracy(outcome, ahead)
    yield "states", paths(outcome, first_states(outcome))
    yield "residual_spectrum", residual_spectrum(outcome, ahead)
    for protocol in study.protocols:
        if protocol.name != "baseline":
            yield f"test_{protocol.name}", prediction(outcome, protocol)
    if study.figures is not None:
        yield from study.figures(outcome).items()


def marginals(outcome: Outcome) -> "Figure":
    """Prior and posterior; in separate panels if the posterior would be a line."""
    study, posterior = outcome.study, outcome.posterior
    if study.view.apart:
        return legend_above(plot_apart(posterior, list(study.priors), study.reference))
    return legend_above(plot_prior_posterior(posterior, list(study.priors), study.truth))


def legend_above(figure: "Figure") -> "Figure":
    """One legend above all panels in place of those inside them, which may cover a narrow posterior."""
    entries: dict[str, Artist] = {}
    for axis in figure.axes:
        handles, words = axis.get_legend_handles_labels()
        entries.update(zip(words, handles, strict=True))
        if (inside := axis.get_legend()) is not None:
            inside.remove()
    figure.legend(
        list(entries.values()), list(entries), loc="outside upper center", ncols=4, frameon=False, fontsize="small"
    )
    return figure


def first_states(outcome: Outcome) -> States:
    """Smoothed states over the first part of the training record; a long record would cost more than it shows."""
    record = outcome.study.record[: outcome.study.view.samples]
    return replace(outcome.posterior, records=(record,)).states(draws=PATH_DRAWS)


def paths(outcome: Outcome, states: States) -> "Figure":
    """Smoothed states with the truth or the measurements."""
    study = outcome.study
    view, shown = study.view, study.record[: study.view.samples]
    measured = {state: np.asarray(shown.outputs[output]) for state, output in view.measured.items()}
    truth = {name: values[: shown.samples] for name, values in view.truth.items()}
    labels = {name: labelled(name, view.units) for name in view.states}
    return plot_paths(states, view.states, labels, view.zoom, truth, measured)


def residual_spectrum(outcome: Outcome, ahead: "OneStepPredictions") -> "Figure":
    """Spectra of the training residuals, of the free run and of one-step predictions."""
    study, posterior = outcome.study, outcome.posterior
    output = study.record.output_names[0]
    record = study.record[: study.view.samples]
    measured = np.asarray(record.outputs[output])
    noise = posterior.mean(f"noise.{output}") if f"noise.{output}" in posterior.columns else None
    assert record.dt is not None
    residuals = {"one sample ahead": measured - ahead.final(record.samples)}
    if study.training is not None:
        free = study.training(outcome.draws(DRAWS)).mean(axis=0)[: record.samples]
        residuals = {"free run": measured - free, **residuals}
    return plot_spectrum(1 / record.dt, measured, residuals, study.record.units.get(output, ""), noise)


def prediction(outcome: Outcome, protocol: ScoringProtocol) -> "Figure":
    """Free run on a test record."""
    curves = protocol.predict(outcome.draws(DRAWS))[:, protocol.skip :]
    time = protocol.record.time[protocol.skip :]
    middle, width = 0.6 * time[-1] + 0.4 * time[0], protocol.zoom
    label = labelled(protocol.output, protocol.record.units)
    return plot_prediction(time, protocol.measured, curves, label, (middle, middle + width))


def degeneracy(outcome: Outcome, ahead: "OneStepPredictions") -> "Figure":
    """Filtered outputs of the current particles, effective sample size and rejuvenations, over a window."""
    study, posterior = outcome.study, outcome.posterior
    output = study.record.output_names[0]
    window = slice(ahead.segments[0][0], ahead.segments[-1][1])
    threshold = posterior.settings.ess_threshold
    ess = posterior.history.ess[window].sum(axis=1) / posterior.settings.run_particles
    table = posterior.history.table()
    marks = [int(s) for s in table["sample"] if window.start <= s < window.stop]
    label = labelled(output, study.record.units)
    samples = np.arange(window.start, window.stop)
    measured, drawn = np.asarray(study.record.outputs[output])[window], ahead.drawn()
    if study.view.deviations:
        middle, label = drawn.mean(axis=0), f"{label}\nminus mean of draws"
        measured, drawn = measured - middle, drawn - middle
    return plot_degeneracy(samples, drawn, measured, ess, threshold, marks, label)


@dataclass(frozen=True, eq=False)
class OneStepPredictions:
    """One-step predictions of the output: for the particles of each segment of a window, and for final draws."""

    segments: list[tuple[int, int, PosteriorSnapshot]]
    predicted: Float[np.ndarray, "particle sample"]
    spread: Float[np.ndarray, "particle sample"]
    """Standard deviation without measurement noise."""

    def drawn(self) -> Float[np.ndarray, "draw sample"]:
        """Draws of the filtered output over the window, each segment with its own particles."""
        random = np.random.default_rng(0)
        pieces = []
        for k, (first, last, _) in enumerate(self.segments):
            rows = slice(k * WINDOW_DRAWS, (k + 1) * WINDOW_DRAWS)
            mean, spread = self.predicted[rows, first:last], self.spread[rows, first:last]
            pieces.append(mean + spread * random.standard_normal((WINDOW_DRAWS, 1)))
        return np.concatenate(pieces, axis=1)

    def final(self, samples: int) -> Float[np.ndarray, " sample"]:
        """Mean prediction of draws from the posterior."""
        return self.predicted[len(self.segments) * WINDOW_DRAWS :, :samples].mean(axis=0)


def one_step_predictions(outcome: Outcome) -> OneStepPredictions:
    """Run the filter once for all particles that the figures need."""
    study, posterior = outcome.study, outcome.posterior
    segments = _segments(outcome, *study.view.window)
    random = np.random.default_rng(0)
    particles = [s.theta[:, Systematic()(random, s.weights, WINDOW_DRAWS)] for _, _, s in segments]
    particles.append(posterior.theta[:, draw_indices(posterior.weights, PATH_DRAWS)])
    samples = min(max(study.view.samples, study.view.window[1]), study.record.samples)
    return OneStepPredictions(segments, *_predictions(outcome, np.concatenate(particles, axis=1), samples))


def _segments(outcome: Outcome, first: int, last: int) -> list[tuple[int, int, PosteriorSnapshot]]:
    """Segments of the window between rejuvenations, with the particles of each; at most the last `MOST_SEGMENTS`."""
    table = outcome.posterior.history.table()
    cuts = sorted({int(s) + 1 for s in table["sample"] if first < s < last - 1} | {first, last})
    segments = [(a, b, outcome.evolution.after(a)) for a, b in pairwise(cuts)]
    return segments[-MOST_SEGMENTS:]


def _predictions(outcome: Outcome, theta: np.ndarray, samples: int) -> tuple[np.ndarray, np.ndarray]:
    """One-step predictions of the output and their standard deviations without noise, (particle, sample)."""
    problem, solver = outcome.posterior.setup.problem, outcome.posterior.setup.solver
    record = outcome.study.record[:samples]
    ode_filter = as_array_filter(solver.ode_filter(problem.model, record.jump_order))
    values = jax.vmap(problem.space.values_of_one, in_axes=-1, out_axes=-1)(jnp.asarray(theta))
    particles = jax.vmap(lambda v: problem.particle(v, 0), in_axes=-1, out_axes=-1)(values)
    data = prepare(record, ode_filter, solver.steps)
    trajectory = trace(ode_filter, particles, data, record.time)
    innovation = trajectory.innovation[:, 0].T
    noise = np.asarray(particles.noise[0])[:, None]
    variance = trajectory.innovation_variance[:, 0].T - noise**2
    measured = np.asarray(record.outputs[record.output_names[0]])
    return measured - innovation, np.sqrt(np.maximum(variance, 0.0))
