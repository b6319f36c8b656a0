"""The report: one HTML page that carries everything it shows, to send on and to print."""

import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from bokeh.embed import components
from bokeh.resources import Resources
from markupsafe import Markup, escape

from probsysid._internal.errors import InputError
from probsysid._internal.files import write_atomically
from probsysid._version import __version__
from probsysid.report.html import residuals
from probsysid.report.html.elements import PageSection, document, join, paragraph, picture, table, warning
from probsysid.report.html.formatting import plain, with_uncertainty
from probsysid.report.html.sampling import sampling_figure
from probsysid.report.html.series import data_figure, fit_figure, states_figure
from probsysid.report.views import Content, DataView, ModelView, RunView

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from probsysid.data.record import Record
    from probsysid.posterior.posterior import Posterior
    from probsysid.study.resolve import ResolvedStudy
    from probsysid.study.run import CandidateResult

SPLIT_KEYS = ("verdict", "solver_verdict", "solver_choice", "uncertainty", "uncertainty_split")
"""Settings of a posterior that tell of the integration: shown in a section of their own, if they are there."""

MOST_IN_CORNER = 10
"""Unknowns up to which all pairs are drawn: beyond, the panels are too small to read."""

OWN_LINE = ("priors", "units", *SPLIT_KEYS)
"""Settings that are shown elsewhere."""


class Figures:
    """Interactive figures by place holder; all are put in at the end, with one script."""

    def __init__(self) -> None:
        self.models: dict[str, Any] = {}

    def add(self, model: Any) -> Markup:
        """A figure, as it will stand in the page."""
        key = f"figure{len(self.models)}"
        self.models[key] = model
        return Markup('<div class="figure">@@{}@@</div>').format(key)

    def embed(self, text: str) -> tuple[str, str]:
        """The page with its figures, and their script."""
        if not self.models:
            return text, ""
        script, divisions = components(self.models)
        for key, division in divisions.items():
            text = text.replace(f"@@{key}@@", division)
        return text, script


# From a study, from a posterior


def write_study_page(path: Path, plan: "ResolvedStudy", results: "Sequence[CandidateResult]", study: str) -> None:
    """The report of a study's results."""
    from probsysid.study.run import comparison, versions

    content = Content(
        title=plan.title,
        data=[DataView(m.name, m.record, m.train, m.test, m.notes, str(m.section.file)) for m in plan.measured],
        models=[_study_model(result) for result in results],
        comparison=comparison(list(results)) if len(results) > 1 else None,
        study=study,
        versions=versions(),
    )
    write_page(path, content)


def _study_model(result: "CandidateResult") -> ModelView:
    from probsysid.study.mathml import equation_of_motion, output_equation

    candidate, formulas = result.candidate, result.candidate.formulas
    coordinates = formulas.coordinates
    motion = [equation_of_motion(c, coordinates[c], e, coordinates) for c, e in formulas.equations.items()]
    outputs = [output_equation(name, e, coordinates) for name, e in formulas.outputs.items()]
    return ModelView(
        name=candidate.name,
        posterior=result.posterior,
        equations=[*motion, *outputs],
        parameters=list(candidate.parameters),
        descriptions=candidate.descriptions,
        fixed={n: (s.fixed, s.unit) for n, s in candidate.parameters.items() if s.fixed is not None},
        states=result.states,
        runs=[
            RunView(run.measured.name, run.simulation, run.train, run.test, run.scores(), run.start)
            for run in result.runs
            if run.finite
        ],
        problems=result.problems,
    )


def write_posterior_page(
    path: str | Path, posterior: "Posterior", *, title: str | None = None, draws: int = 200
) -> None:
    """The report of a posterior with its training records."""
    if not posterior.records:
        raise InputError("this posterior was loaded without its records; a report needs them.")
    names = posterior.problem.model.physical_names
    states, runs = {}, []
    for index, record in enumerate(posterior.records):
        states[index] = posterior.states(index, draws=20)
        initial = {name: float(states[index].mean[name][0]) for name in names}
        simulation = posterior.simulate(record, initial=initial, particles=min(draws, len(posterior.weights)))
        scores = {
            name: {"rmse": simulation.rmse(name).mean, "fit_percent": simulation.fit(name).mean}
            for name in simulation.scored
        }
        start = "the smoothed state at the first sample"
        runs.append(RunView(_name(record, index), simulation, slice(0, record.samples), None, {"train": scores}, start))
    records = enumerate(posterior.records)
    content = Content(
        title=title or posterior.settings.get("model", "posterior"),
        data=[DataView(_name(record, i), record, slice(0, record.samples), None) for i, record in records],
        models=[
            ModelView(
                posterior.settings.get("model", "model"),
                posterior,
                parameters=posterior.problem.model.parameter_names,
                states=states,
                runs=runs,
            )
        ],
    )
    write_page(Path(path), content)


def _name(record: "Record", index: int) -> str:
    return record.name or f"record {index + 1}"


# The page


def write_page(path: Path, content: Content) -> None:
    """Write a report in one piece."""
    write_atomically(Path(path), render(content).encode())


def render(content: Content) -> str:
    """The whole page as text."""
    figures = Figures()
    sections = list(_sections(content, figures))
    first = content.models[0].posterior.settings
    when = first.get("created", "").replace("T", " at ")
    text = document(
        content.title,
        f"Identified {when} with probsysid {first.get('version', '')}",
        sections,
        f"Made by probsysid {__version__}. This page needs no network and no other file.",
        resources="@@resources@@",
        script="@@script@@",
    )
    text, script = figures.embed(text)
    resources = Resources(mode="inline", components=["bokeh"], log_level="error").render() if script else ""
    return text.replace("@@resources@@", resources).replace("@@script@@", script)


def _sections(content: Content, figures: Figures) -> Iterable[PageSection]:
    several = len(content.models) > 1
    yield PageSection("short", "In short", _short(content))
    if content.comparison is not None:
        yield PageSection("comparison", "Comparison", _comparison(content.comparison))
    yield PageSection("data", "Data", join(_data(view, figures) for view in content.data))
    for i, model in enumerate(content.models):
        parts = [
            ("model", "Model", _equations(model)),
            ("parameters", "Parameters", _parameters(model, listed=several)),
            ("integration", "Integration", _integration(model)),
            ("fit", "Fit", _fits(model, figures)),
            ("states", "States", _states(model, figures)),
            ("residuals", "Residuals", _residuals(model, figures)),
            ("sampling", "Sampling", _sampling(model, figures)),
        ]
        parts = [part for part in parts if part[2]]
        if several:
            body = join(Markup("<h3>{}</h3>{}").format(title, body) for _, title, body in parts)
            yield PageSection(f"model{i}", model.name, body)
        else:
            yield from (PageSection(anchor, title, body) for anchor, title, body in parts)
    yield PageSection("settings", "Settings", _settings(content))


# Sections


def _short(content: Content) -> Markup:
    best = _best(content)
    posterior = best.posterior
    tiles = [(f"{posterior.log_evidence:.1f}", f"log evidence{_error(posterior.log_evidence_error)}")]
    for run in best.runs:
        for which, outputs in run.scores.items():
            word = "training" if which == "train" else "test"
            tiles += [
                (f"{values['fit_percent']:.1f} %", f"fit of {output}, {word}, {run.name}")
                for output, values in outputs.items()
            ]
    tiles += [
        (f"{posterior.ess:.0f} of {len(posterior.weights)}", "effective particles"),
        (f"{sum(r.samples for r in posterior.records)}", "training samples"),
    ]
    shown = Markup("").join(Markup("<div><b>{}</b><span>{}</span></div>").format(*tile) for tile in tiles[:8])
    title = paragraph(Markup("The best of {} models by evidence is <b>{}</b>.").format(len(content.models), best.name))
    parts = [title] if len(content.models) > 1 else []
    parts += [Markup('<div class="key">{}</div>').format(shown), _parameter_table(best)]
    parts += [paragraph(f"Integration: {posterior.verdict}", "soft")] if posterior.verdict else []
    parts += [warning(f"{model.name}: {text}.") for model in content.models for text in model.problems]
    return join(parts)


def _best(content: Content) -> ModelView:
    return max(content.models, key=lambda model: model.posterior.log_evidence)


def _error(value: float) -> str:
    return f" (± {value:.2f})" if np.isfinite(value) else ""


def _comparison(frame: Any) -> Markup:
    rows = [
        [name, f"{row.log_evidence:.2f}{_error(row.error)}", f"{row.below_best:.2f}", _probability(row.probability)]
        for name, row in frame.iterrows()
    ]
    text = (
        "The evidence is the probability of the data under a model with its priors: it rewards fit and counts every "
        "constant that had to be found against it. A difference of 5 is strong. The last column is the probability of "
        "each model if all were equally likely before the data."
    )
    ranked = table(["model", "log evidence", "below the best", "probability"], rows, (1, 2, 3), best=True)
    return join([ranked, paragraph(text, "soft")])


def _probability(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 else "under 0.001"


def _data(view: DataView, figures: Figures) -> Markup:
    record = view.record
    sampling = "not uniform" if record.dt is None else f"{plain(record.dt)} s"
    rows: list[list[Any]] = [
        ["samples", record.samples],
        ["step", sampling],
        ["duration", f"{plain(record.duration)} s"],
    ]
    for word, part in (("training", view.train), ("test", view.test)):
        if part is not None:
            times = f"{record.time[part.start]:.6g} to {record.time[part.stop - 1]:.6g} s"
            rows.append([word, f"samples {part.start} to {part.stop - 1} ({times})"])
    rows += [["input", f"{record.label(name)}, {word} between samples"] for name, word in record.intersample.items()]
    for name, values in record.outputs.items():
        missing = int(np.sum(np.isnan(values)))
        rows.append(["output", f"{record.label(name)}{f', {missing} missing' if missing else ''}"])
    rows += [["remark", note] for note in view.notes]
    if view.file:
        rows.insert(0, ["file", view.file])
    return join([Markup("<h3>{}</h3>").format(view.name), table(["", ""], rows), figures.add(data_figure(view))])


def _equations(model: ModelView) -> Markup:
    if not model.equations:
        return Markup("")
    lines = Markup("").join(Markup(f"<div>{block}</div>") for block in model.equations)
    return Markup('<div class="equation">{}</div>').format(lines)


def _ordered(model: ModelView) -> list[str]:
    names = list(model.posterior.columns)
    order = {name: i for i, name in enumerate(model.parameters)}
    return sorted(names, key=lambda name: (order.get(name.split("[")[0], len(order)), names.index(name)))


def _parameter_table(model: ModelView) -> Markup:
    """One row an unknown, then what was given; columns that would be empty are left out."""
    frame = model.posterior.table()
    described, flagged = bool(model.descriptions), bool((frame["flags"] != "").any())
    rows = []
    for name in _ordered(model):
        row = frame.loc[name]
        mean, sd, low, high = (with_uncertainty(row[key], row["sd"]) for key in ("mean", "sd", "q05", "q95"))
        what = [model.descriptions.get(name, _meaning(name))] if described else []
        flags = [Markup('<span class="flag">{}</span>').format(row["flags"])] if flagged else []
        rows.append([_bold(name), *what, mean, sd, f"{low} … {high}", _unit(row["unit"]), *flags])
    for name, (value, unit) in model.fixed.items():
        what = [model.descriptions.get(name, "")] if described else []
        rows.append([_bold(name), *what, plain(value), "given", "", _unit(unit), *([""] if flagged else [])])
    head = [
        "",
        *(["what"] if described else []),
        "mean",
        "sd",
        "90 % interval",
        "unit",
        *(["remarks"] if flagged else []),
    ]
    first = 1 + described
    return table(head, rows, range(first, first + 3), spare=range(1, first))


def _bold(text: str) -> Markup:
    return Markup("<b>{}</b>").format(text)


def _unit(text: str) -> Markup:
    """`N/m^3` with a raised 3."""
    return Markup(re.sub(r"\^(-?\d+)", r"<sup>\1</sup>", str(escape(text))))


def _meaning(name: str) -> str:
    kind, _, rest = name.partition(".")
    words = {"noise": "noise of", "model_error": "model error of", "initial": "initial value of"}
    return f"{words[kind.split('[')[0]]} {rest}" if rest and kind.split("[")[0] in words else ""


def _parameters(model: ModelView, *, listed: bool) -> Markup:
    from probsysid.report.figures.corner import plot_corner
    from probsysid.report.figures.marginals import plot_marginals

    posterior, names = model.posterior, _ordered(model)
    frame = posterior.table()
    priors = table(["", "prior"], [[name, frame.loc[name, "prior"]] for name in names])
    parts = [_parameter_table(model)] if listed else []
    if any(frame["flags"]):
        text = (
            "Remarks: <i>at prior</i>: the data say next to nothing of it. <i>at bound</i>: it piles up at the end of "
            "its prior. <i>tied to</i>: only a combination of the two is known."
        )
        parts.append(paragraph(Markup(text), "soft"))
    parts.append(_drawn(lambda: plot_marginals(posterior), "Prior and posterior of every unknown"))
    parts.append(Markup("<details><summary>Priors</summary>{}</details>").format(priors))
    if 2 <= len(names) <= MOST_IN_CORNER:
        corner = _drawn(lambda: plot_corner(posterior, names), "Every pair of unknowns: draws and correlations")
        parts.append(Markup("<h3>Pairs</h3>{}").format(corner))
    return join(parts)


def _drawn(draw: "Callable[[], Figure]", description: str) -> Markup:
    """A drawing as part of the page; of a posterior that is a single point there may be none."""
    import matplotlib.pyplot as plt

    try:
        figure = draw()
    except (ValueError, ArithmeticError, np.linalg.LinAlgError):
        return warning(f"{description}: this could not be drawn, for the posterior has no spread.")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=130)
    plt.close(figure)
    return picture(buffer.getvalue(), description)


def _integration(model: ModelView) -> Markup:
    """What the posterior's settings say of the solver: texts, tables and mappings as they come."""
    found = {key: model.posterior.settings[key] for key in SPLIT_KEYS if model.posterior.settings.get(key)}
    return join(_anything(value) for value in found.values())


def _anything(value: Any) -> Markup:
    if isinstance(value, Mapping) and all(isinstance(item, Mapping) for item in value.values()):
        head = list(dict.fromkeys(key for item in value.values() for key in item))
        rows = [[name, *(_shown(item.get(key, "")) for key in head)] for name, item in value.items()]
        return table(["", *head], rows, range(1, len(head) + 1))
    if isinstance(value, Mapping):
        return table(["", ""], [[key, _shown(item)] for key, item in value.items()])
    if isinstance(value, list | tuple) and all(isinstance(item, Mapping) for item in value):
        head = list(dict.fromkeys(key for item in value for key in item))
        return table(head, [[_shown(item.get(key, "")) for key in head] for item in value])
    return paragraph(_shown(value))


def _shown(value: Any) -> str:
    return plain(value) if isinstance(value, float) else str(value)


def _fits(model: ModelView, figures: Figures) -> Markup:
    parts = []
    for run in model.runs:
        parts.append(Markup("<h3>{}</h3>").format(run.name))
        rows = [
            ["training" if which == "train" else which, output, plain(values["rmse"]), f"{values['fit_percent']:.2f} %"]
            for which, outputs in run.scores.items()
            for output, values in outputs.items()
        ]
        if rows:
            parts.append(table(["range", "output", "rmse", "fit"], rows, (2, 3)))
        text = (
            f"Free run: simulated from {run.start}, with the measured inputs and without looking at the outputs. "
            "Fit is 100 % (1 − rmse / standard deviation of the data), the mean over the posterior. Drag over a "
            "stretch to zoom."
        )
        parts.append(paragraph(text, "soft"))
        parts += [figures.add(fit_figure(run, output)) for output in run.simulation.scored]
    return join(parts)


def _states(model: ModelView, figures: Figures) -> Markup:
    parts = []
    units = model.posterior.settings.get("units", {})
    for index, states in model.states.items():
        record = model.posterior.records[index]
        parts.append(Markup("<h3>{}</h3>").format(_name(record, index)))
        names = model.posterior.problem.model.physical_names
        shown = record[: len(states.time)]
        parts.append(figures.add(states_figure(states, shown, names, units)))
        if len(states.time) < record.samples:
            parts.append(paragraph(f"The first {len(states.time)} samples.", "soft"))
    if parts:
        text = "Smoothed states: what model and data say of them together, with a band of two standard deviations."
        parts.insert(0, paragraph(text))
    return join(parts)


def _residuals(model: ModelView, figures: Figures) -> Markup:
    parts = []
    for index, states in model.states.items():
        record = model.posterior.records[index][: len(states.time)]
        for output, innovations in states.innovations.items():
            found = residuals.analyse(innovations, record.outputs.get(output))
            if found is None:
                continue
            text = residuals.verdict(f"{output}, {_name(record, index)}", found)
            parts.append(paragraph(text) if found.white else warning(text))
            plots = join(figures.add(plot) for plot in residuals.residual_figures(found, record))
            parts.append(Markup('<div class="row">{}</div>').format(plots))
    if parts:
        text = (
            "Errors of the prediction of each sample from those before it, divided by their expected size. If the "
            "model and the noise level are right they are white, with standard deviation 1, and know nothing of the "
            "input."
        )
        parts.insert(0, paragraph(text, "soft"))
    return join(parts)


def _sampling(model: ModelView, figures: Figures) -> Markup:
    posterior = model.posterior
    history, settings = posterior.rejuvenations(), posterior.settings
    sweeps, seconds = (float(settings.get(key, np.nan)) for key in ("sweeps", "seconds"))
    facts = (
        f"{settings.get('particles')} particles, {len(history)} rejuvenations, {sweeps:.0f} sweeps over the data, "
        f"{seconds:.0f} s; {settings.get('lost', 0)} particles lost."
    )
    parts = [paragraph(facts), figures.add(sampling_figure(posterior))]
    if len(history) and float(history["acceptance"].median()) < 0.1:
        text = "Less than a tenth of the proposals are accepted: take more particles, or priors that tell more."
        parts.insert(0, warning(text))
    return join(parts)


def _settings(content: Content) -> Markup:
    parts = []
    for model in content.models:
        rows = [[key, _shown(value)] for key, value in model.posterior.settings.items() if key not in OWN_LINE]
        title = f"Settings of {model.name}" if len(content.models) > 1 else "Settings"
        parts.append(Markup("<details><summary>{}</summary>{}</details>").format(title, table(["", ""], rows)))
    if content.study:
        parts.append(
            Markup("<details><summary>Study file as used</summary><pre>{}</pre></details>").format(content.study)
        )
    if content.versions:
        parts.append(
            Markup("<details><summary>Versions</summary>{}</details>").format(
                table(["", ""], [list(item) for item in content.versions.items()])
            )
        )
    parts.append(paragraph("The same study, data, seed and versions give the same numbers.", "soft"))
    return join(parts)
