"""The report: one self-contained HTML page, assembled from its sections and written to a file."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from probsysid._internal.errors import InputError
from probsysid._internal.files import write_atomically
from probsysid._internal.validation import checked_target
from probsysid._version import __version__
from probsysid.report import sections
from probsysid.report.html.rendering import InteractiveFigures, render_page
from probsysid.report.views import Content, DataView, ModelView, PagePart, PageSection, RunView, record_name

if TYPE_CHECKING:
    from probsysid.posterior.posterior import Posterior

INPUT_DRAWS = 100
"""Of unknown inputs: sums of processes have the moments of their paths."""

STATE_SAMPLES = 20_000
"""Smoothing keeps one matrix per sample and draw: of long records only the first samples are smoothed."""


def write_page(path: Path, content: Content) -> None:
    """Write a report atomically: the whole page or nothing."""
    write_atomically(Path(path), render(content).encode())


def write_posterior_page(
    path: str | Path, posterior: "Posterior", *, title: str | None = None, draws: int = 200
) -> None:
    """Write the report of a posterior on its training records."""
    write_page(checked_target(path), posterior_content(posterior, title=title, draws=draws))


def posterior_content(posterior: "Posterior", *, title: str | None = None, draws: int = 200) -> Content:
    """A posterior with smoothed states and free runs of `draws` particles on each of its training records."""
    if not posterior.records:
        raise InputError("this posterior has no records, which a report needs; load it with records=...")
    model, name = posterior.setup.problem.model, posterior.settings.model
    data, states, inputs, runs = [], {}, {}, []
    for index, record in enumerate(posterior.records):
        called, whole = record_name(record, index), slice(0, record.samples)
        cut = tuple(r[: min(r.samples, STATE_SAMPLES)] for r in posterior.records)
        states[index] = replace(posterior, records=cut).states(index, draws=20)
        if posterior.setup.problem.latent:
            inputs[index] = replace(posterior, records=cut).inputs(index, draws=INPUT_DRAWS)
        simulation = posterior.simulate(
            record, experiment=index, process_noise=False, particles=min(draws, len(posterior.weights))
        )
        predicted = posterior.predict(record, experiment=index, particles=len(simulation.weights))
        scores = {
            output: {
                "rmse": simulation.rmse(output).mean,
                "fit_percent": simulation.fit(output).mean,
                "coverage": predicted.attrs[f"{output}_coverage"],
            }
            for output in simulation.scored
        }
        runs.append(RunView(called, simulation, whole, None, {"train": scores}, simulation.start))
        data.append(DataView(called, record, whole, None))
    view = ModelView(
        name or "model",
        posterior,
        parameters=model.parameter_names,
        states=states,
        inputs=inputs,
        runs=runs,
        problems=[sentence.rstrip(".") for sentence in (*_untrusted(posterior), *posterior.doubts)],
    )
    return Content(title or name or "posterior", data, [view])


def _untrusted(posterior: "Posterior") -> tuple[str, ...]:
    """What speaks against the sampling."""
    trusted = posterior.sampling is None or posterior.sampling.trusted
    return () if trusted else (posterior.sampling_verdict,)


def render(content: Content, extra: Sequence[PageSection] = (), subtitle: str = "", footer: str = "") -> str:
    """The whole page as text; `extra` sections follow the first one, `subtitle` and `footer` replace the usual ones."""
    figures = InteractiveFigures()
    first, found = content.models[0].posterior.settings, list(_sections(content, figures))
    return render_page(
        content.title,
        subtitle or f"Identified {first.created.replace('T', ' at ')} with probsysid {first.version}",
        [found[0], *extra, *found[1:]],
        footer or f"Made by probsysid {__version__}. This page needs no network and no other file.",
        figures,
    )


def _sections(content: Content, figures: InteractiveFigures) -> Iterable[PageSection]:
    several = len(content.models) > 1
    yield PageSection("short", "In short", [PagePart("summary", sections.summary(content))])
    if content.comparison is not None:
        yield PageSection("comparison", "Comparison", [PagePart("comparison", sections.comparison(content.comparison))])
    records = [PagePart("data", sections.record_summary(view, figures), view.name) for view in content.data]
    yield PageSection("data", "Data", records)
    for i, model in enumerate(content.models):
        parts = _model_parts(model, figures, listed=several)
        if several:
            yield PageSection(f"model{i}", model.name, [PagePart(kind, part, title) for kind, title, part in parts])
        else:
            yield from (PageSection(kind, title, [PagePart(kind, part)]) for kind, title, part in parts)
    yield PageSection("settings", "Settings", [PagePart("settings", sections.settings(content))])


def _model_parts(model: ModelView, figures: InteractiveFigures, *, listed: bool) -> list[tuple[str, str, object]]:
    """Template, which is also the anchor, title and content of every part that has something to show."""
    parts: list[tuple[str, str, object]] = [
        ("model", "Model", model.equations),
        ("parameters", "Parameters", sections.parameters(model, listed=listed)),
        ("integration", "Integration", sections.integration(model)),
        ("fit", "Fit", sections.fits(model, figures)),
        ("inputs", "Unknown inputs and drifts", sections.unknown_inputs(model, figures)),
        ("states", "States", sections.smoothed_states(model, figures)),
        ("residuals", "Residuals", sections.residuals(model, figures)),
        ("sampling", "Sampling", sections.sampling(model, figures)),
    ]
    return [part for part in parts if part[2]]
