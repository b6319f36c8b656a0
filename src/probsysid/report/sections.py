"""From the views to what each section lays out: numbers become text, signals become figures.

A function that returns nothing (an empty list or None) leaves its section out of the page.
"""

import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from probsysid.model.varying import record_value
from probsysid.posterior.diagnostics.noise_marks import noise_marks
from probsysid.posterior.diagnostics.residuals import analyse, verdict
from probsysid.posterior.diagnostics.traffic_lights import traffic_lights
from probsysid.posterior.posterior import Posterior
from probsysid.posterior.storage import settings_record
from probsysid.posterior.unknown_inputs import SEGMENTS
from probsysid.report.html.formatting import plain, shown, with_uncertainty
from probsysid.report.html.rendering import InteractiveFigures
from probsysid.report.html.residuals import residual_figures
from probsysid.report.html.sampling import sampling_figure
from probsysid.report.html.series import data_figure, fit_figure, inputs_figure, states_figure
from probsysid.report.precision import in_words
from probsysid.report.views import (
    Content,
    DataView,
    Drawing,
    Integration,
    ModelView,
    OutputResiduals,
    ParameterRow,
    Parameters,
    ParameterTable,
    RecordInputs,
    RecordStates,
    RecordSummary,
    RunFit,
    Sampling,
    Settings,
    Summary,
    Table,
    record_name,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from probsysid.posterior.posterior import Posterior

SHOWN_ELSEWHERE = ("priors", "units", "solver_verdict", "uncertainty", "sampling_verdict", "sampling_check")
"""Settings that the sections on parameters and integration show."""

MOST_IN_CORNER = 10
"""Number of unknowns up to which all pairs are drawn: with more, the panels are too small to read."""

MOST_TILES = 8

FEW_ACCEPTED = 0.1
"""Median acceptance rate below which the report warns."""

WORDS = {"noise": "noise of", "process_noise": "process noise of", "initial": "initial value of"}
"""Descriptions of the quantities that are not parameters, by the first part of their names."""

NOISE_PARTS = {"degrees": "degrees of freedom of the noise of", "time": "correlation time of the noise of"}
"""By the last part of their names."""


def summary(content: Content) -> Summary:
    """The result in short, of the model with the highest evidence."""
    best = max(content.models, key=lambda model: model.posterior.log_evidence)
    posterior = best.posterior
    scores = [
        (f"{values['fit_percent']:.1f} %", f"fit of {output}, {'training' if which == 'train' else 'test'}, {run.name}")
        for run in best.runs
        for which, outputs in run.scores.items()
        for output, values in outputs.items()
    ]
    tiles = [
        (f"{posterior.log_evidence:.1f}", f"log evidence{_error(posterior.log_evidence_error)}"),
        *scores,
        (f"{posterior.ess:.0f} of {len(posterior.weights)}", "effective particles"),
        (f"{sum(r.samples for r in posterior.records)}", "training samples"),
    ]
    lights = traffic_lights(posterior)
    said = [light.sentence for light in lights]
    return Summary(
        models=len(content.models),
        best=best.name,
        tiles=tiles[:MOST_TILES],
        parameters=parameter_table(best),
        precision=in_words(posterior.table(), [name for name in ordered(best) if _parameter(name) in best.parameters]),
        identifiability=posterior.identifiability.sentences,
        lights=lights,
        problems=[
            f"{model.name}: {text}" if len(content.models) > 1 else text
            for model in content.models
            for text in model.problems
            if model is not best or not any(sentence.startswith(f"{text}.") for sentence in said)
        ],
        picture=_first_run(best),
    )


def _first_run(model: ModelView) -> Drawing | None:
    """The free run that is tested, or else the first one."""
    from probsysid.report.figures.prediction import plot_fit

    scored = [run for run in model.runs if run.simulation.scored]
    if not scored:
        return None
    run = next((run for run in scored if run.test is not None), scored[0])
    return drawing(lambda: plot_fit(run.simulation), f"Free run and its error, {run.name}")


def _error(value: float) -> str:
    return f" (± {value:.2f})" if np.isfinite(value) else ""


def comparison(frame: pd.DataFrame) -> Table:
    """Models by evidence, the best first, with their errors in free run on test ranges."""
    errors = [column for column in frame if column.startswith("test rmse of ")]
    rows = [
        [
            name,
            f"{row.log_evidence:.2f}{_error(row.error)}",
            f"{row.below_best:.2f}",
            _probability(row.probability),
            row["sampling"],
            *(plain(row[column]) if np.isfinite(row[column]) else "" for column in errors),
        ]
        for name, row in frame.iterrows()
    ]
    header = ["model", "log evidence", "below the best", "probability", "sampling", *errors]
    return Table(rows, header, numeric=(1, 2, 3, *range(5, len(header))), best=True)


def _probability(value: float) -> str:
    if np.isnan(value):
        return "not known"
    return f"{value:.3f}" if value >= 0.001 else "under 0.001"


def record_summary(view: DataView, figures: InteractiveFigures) -> RecordSummary:
    """Size, sampling, ranges and channels of a record."""
    record = view.record
    rows: list[tuple[str, object]] = [("file", view.file)] if view.file else []
    rows += [
        ("samples", record.samples),
        ("step", "not uniform" if record.dt is None else f"{plain(record.dt)} s"),
        ("duration", f"{plain(record.duration)} s"),
    ]
    for word, part in (("training", view.train), ("test", view.test)):
        if part is not None:
            times = f"{record.time[part.start]:.6g} to {record.time[part.stop - 1]:.6g} s"
            rows.append((word, f"samples {part.start} to {part.stop - 1} ({times})"))
    rows += [("input", f"{record.label(name)}, {word} between samples") for name, word in record.intersample.items()]
    for name, values in record.outputs.items():
        missing = int(np.sum(np.isnan(values)))
        rows.append(("output", f"{record.label(name)}{f', {missing} missing' if missing else ''}"))
    rows += [("remark", note) for note in view.notes]
    return RecordSummary(Table(rows), figures.add(data_figure(view)))


def ordered(model: ModelView) -> list[str]:
    """Names of all inferred quantities, parameters first, in the model's order."""
    names = list(model.posterior.columns)
    order = {name: i for i, name in enumerate(model.parameters)}
    return sorted(names, key=lambda name: (order.get(_parameter(name), len(order)), names.index(name)))


def _parameter(name: str) -> str:
    """The parameter that a quantity belongs to: itself, its values by record or entry, its spread between records."""
    return name.split("[")[0].removesuffix(".spread")


def parameter_table(model: ModelView) -> ParameterTable:
    """One row per unknown, then the constants that were given."""
    frame = model.posterior.table()
    rows = []
    for name in ordered(model):
        row = frame.loc[name]
        mean, sd, low, high = (with_uncertainty(row[key], row["sd"]) for key in ("mean", "sd", "q05", "q95"))
        description = model.descriptions.get(name, _meaning(model.posterior, name))
        rows.append(ParameterRow(name, description, mean, sd, f"{low} … {high}", row["unit"], row["flags"]))
    for name, (value, unit) in model.fixed.items():
        description = model.descriptions.get(name, "")
        rows.append(ParameterRow(name, description, plain(value), "given", "", unit, given=True))
    described = bool(model.descriptions) or bool(_variations(model.posterior))
    return ParameterTable(rows, described=described, flagged=bool((frame["flags"] != "").any()))


def _meaning(posterior: Posterior, name: str) -> str:
    """`noise.y` -> noise of y; `k[1]` -> k on record 2 if it varies; empty for a parameter."""
    for parameter, relative in _variations(posterior).items():
        if name == f"{parameter}.spread":
            return f"{'relative ' if relative else ''}spread of {parameter} between records"
        for index, record in enumerate(posterior.records):
            if name == record_value(parameter, index):
                return f"{parameter} on {record_name(record, index)}"
    kind, _, rest = name.partition(".")
    word = WORDS.get(kind.split("[")[0])
    output, _, part = rest.partition(".")
    if kind == "noise" and part in NOISE_PARTS:
        return f"{NOISE_PARTS[part]} {output}"
    return f"{word} {rest}" if rest and word else ""


def _variations(posterior: Posterior) -> dict[str, bool]:
    """Parameters that vary between records, and whether their spread is relative."""
    if not posterior.setup.known:
        return {}
    problem = posterior.setup.problem
    relative = {varying.name for varying in problem.space.varying if varying.relative}
    return {name: name in relative for name in problem.varies}


def parameters(model: ModelView, *, listed: bool) -> Parameters:
    """Marginals, priors and pairs of the unknowns; their table too if `listed`."""
    from probsysid.report.figures.corner import plot_corner
    from probsysid.report.figures.marginals import plot_marginals

    posterior, names = model.posterior, ordered(model)
    frame = posterior.table()
    corner = None
    if 2 <= len(names) <= MOST_IN_CORNER:
        corner = drawing(lambda: plot_corner(posterior, names), "Every pair of unknowns: draws and correlations")
    return Parameters(
        listed=parameter_table(model) if listed else None,
        identifiability=posterior.identifiability.sentences if listed else (),
        flagged=any(frame["flags"]),
        marginals=drawing(lambda: plot_marginals(posterior), "Prior and posterior of every unknown"),
        priors=Table([(name, frame.loc[name, "prior"]) for name in names], ["", "prior"]),
        corner=corner,
    )


def drawing(draw: "Callable[[], Figure]", description: str) -> Drawing:
    """A figure as PNG; a posterior that is a single point may have none."""
    import matplotlib.pyplot as plt

    try:
        figure = draw()
    except (ValueError, ArithmeticError, np.linalg.LinAlgError):
        return Drawing(description, None)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=130)
    plt.close(figure)
    return Drawing(description, buffer.getvalue())


def integration(model: ModelView) -> Integration | None:
    """Accuracy of the solver, where it was checked."""
    shares = model.posterior.variance_shares or {}
    sources = list(dict.fromkeys(source for row in shares.values() for source in row))
    rows = [[name, *(shown(row.get(source, "")) for source in sources)] for name, row in shares.items()]
    table = Table(rows, ["", *sources], numeric=range(1, len(sources) + 1)) if rows else None
    return Integration(model.posterior.verdict, table) if model.posterior.verdict or table else None


def fits(model: ModelView, figures: InteractiveFigures) -> Sequence[RunFit]:
    """Scores and a figure per output for every free run."""
    found = []
    for run in model.runs:
        rows = [
            [
                "training" if which == "train" else which,
                output,
                plain(values["rmse"]),
                f"{values['fit_percent']:.2f} %",
                f"{100 * values['coverage']:.0f} %",
            ]
            for which, outputs in run.scores.items()
            for output, values in outputs.items()
        ]
        scores = Table(rows, ["range", "output", "rmse", "fit", "in 90 % band"], numeric=(2, 3, 4)) if rows else None
        keys, remarks = [], []
        for output in run.simulation.scored:
            marks = noise_marks(model.posterior, run.simulation, output)
            keys.append(figures.add(fit_figure(run, output, marks)))
            remarks += marks.sentences(output, run.simulation.record.samples)
        found.append(RunFit(run.name, scores, run.start, keys, remarks))
    return found


def smoothed_states(model: ModelView, figures: InteractiveFigures) -> Sequence[RecordStates]:
    """Smoothed states of every training record."""
    found = []
    units, names = model.posterior.settings.units, model.posterior.setup.problem.given_model.physical_names
    for index, states in model.states.items():
        record, samples = model.posterior.records[index], len(states.time)
        key = figures.add(states_figure(states, names, units))
        found.append(RecordStates(record_name(record, index), key, samples if samples < record.samples else None))
    return found


def unknown_inputs(model: ModelView, figures: InteractiveFigures) -> Sequence[RecordInputs]:
    """Unknown inputs and drifts of every training record."""
    from probsysid.report.figures.unknown_inputs import plot_spectra

    found = []
    for index, inputs in model.inputs.items():
        record, samples = model.posterior.records[index], len(inputs.time)
        unknown = [name for name in inputs.mean if name in model.posterior.setup.problem.latent.unknown]
        spectra = None
        if unknown and record.dt is not None and samples > SEGMENTS:
            spectra = drawing(lambda i=inputs, n=unknown: plot_spectra(i, n), "Spectra of unknown inputs")  # type: ignore[misc]
        key, first = figures.add(inputs_figure(inputs)), samples if samples < record.samples else None
        found.append(RecordInputs(record_name(record, index), inputs.sentences, key, spectra, first))
    return found


def residuals(model: ModelView, figures: InteractiveFigures) -> Sequence[OutputResiduals]:
    """One-step prediction errors of every output, where there are enough of them to judge."""
    parts = []
    for index, states in model.states.items():
        record = model.posterior.records[index][: len(states.time)]
        for output, innovations in states.innovations.items():
            found = analyse(innovations.mean(axis=0))
            if found is None:
                continue
            forced = model.posterior.setup.problem.disturbed
            text = verdict(f"{output}, {record_name(record, index)}", found, forced)
            keys = [figures.add(plot) for plot in residual_figures(found, record)]
            parts.append(OutputResiduals(text, found.white, keys))
    return parts


def sampling(model: ModelView, figures: InteractiveFigures) -> Sampling:
    """Cost of the run, and its effective sample size and acceptance rates."""
    posterior = model.posterior
    history, settings = posterior.history.table(), posterior.settings
    return Sampling(
        particles=settings.particles,
        rejuvenations=len(history),
        sweeps=f"{settings.sweeps:.0f}",
        seconds=f"{settings.seconds:.0f}",
        lost=settings.lost,
        rarely_accepted=bool(len(history)) and float(history["acceptance"].median()) < FEW_ACCEPTED,
        figure=None if settings.method == "map" else figures.add(sampling_figure(posterior)),
        modes=_modes(model),
        laplace=_laplace(posterior),
    )


def _modes(model: ModelView) -> Table | None:
    """Means beside the best mode."""
    best, frame = model.posterior.map, model.posterior.table()
    if best is None:
        return None
    rows = [
        [
            name,
            *(with_uncertainty(value, frame.loc[name, "sd"]) for value in (frame.loc[name, "mean"], best.values[name])),
        ]
        for name in ordered(model)
    ]
    return Table(rows, ["", "mean", "best mode"], numeric=(1, 2))


def _laplace(posterior: "Posterior") -> str:
    """The evidence beside that of the modes; empty where none is known."""
    modes = None if posterior.sampling is None else posterior.sampling.modes
    if modes is None or not modes.found:
        return "" if modes is None else f"{modes.sentence}."
    count = "the mode" if len(modes.found) == 1 else f"{len(modes.found)} modes"
    found = f"Log evidence by Laplace's approximation around {count}: {modes.log_evidence:.2f}"
    return f"{found}; by the run: {posterior.log_evidence:.2f}{_error(posterior.log_evidence_error)}."


def settings(content: Content) -> Settings:
    """Settings of every model, the study file and the versions of libraries."""
    tables = []
    for model in content.models:
        record = settings_record(model.posterior)
        rows = [(key, shown(value)) for key, value in record.items() if key not in SHOWN_ELSEWHERE]
        tables.append((f"Settings of {model.name}" if len(content.models) > 1 else "Settings", Table(rows)))
    versions = Table(list(content.versions.items())) if content.versions else None
    return Settings(tables, content.study, versions)
