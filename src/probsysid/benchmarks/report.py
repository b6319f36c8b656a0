"""The report of a case study: one self-contained page with tables and pictures."""

from collections.abc import Mapping
from pathlib import Path

import rich.table

from probsysid.benchmarks.run import Outcome
from probsysid.benchmarks.table import evidence_table, parameter_table, score_table
from probsysid.report.html.rendering import render_page
from probsysid.report.page import posterior_content, render
from probsysid.report.views import Drawing, PagePart, PageSection, Table, TitledTable

DRAWS = 64
"""Free runs on the training record."""

CAPTIONS = {
    "marginals": "Prior and posterior: histograms and densities.",
    "corner": "All pairs of parameters; correlations above the diagonal.",
    "evolution": "Median and 90 % interval as the samples came in; dashed: true or published value.",
    "degeneracy": "Draws of the filtering distribution; effective sample size of the worst island, its threshold, "
    "rejuvenations.",
    "states": "Posterior state paths and a band of two standard deviations; right: the shaded part enlarged.",
    "residual_spectrum": "Spectrum of the training output and of what the model leaves of it.",
    "loop": "Hysteresis loop of the training record's last tenth of a second.",
    "restoring_force": "Restoring force less its linear part; points: from the record's derivatives; right: width of "
    "the posterior.",
    "friction": "Friction against velocity; points: from the record's derivatives; right: width of the posterior.",
    "signals": "The whole record; training and test parts shaded.",
}


def write_report(outcome: Outcome, images: Mapping[str, bytes], path: Path) -> None:
    """Write the page."""
    path.write_text(page(outcome, images), encoding="utf-8")


def page(outcome: Outcome, images: Mapping[str, bytes]) -> str:
    """The page as HTML: that of any posterior, with the scores after its first section and the figures at its end."""
    context = outcome.context
    about = "; ".join(sorted({limit.about for limit in context.limits.values()}))
    evidence, solver = as_part(evidence_table([outcome])), PagePart("solver", context.settings["solver"])
    drawings = [Drawing(caption(name), png) for name, png in images.items()]
    sections = [
        PageSection("scores", "Prediction", [as_part(score_table([outcome])), PagePart("remark", f"Limit: {about}.")]),
        PageSection("published", "Against published values", [as_part(parameter_table(outcome))]),
        PageSection("run", "Run", [evidence, solver]),
        PageSection("figures", "Figures", [PagePart("pictures", drawings)]),
    ]
    footer = f"probsysid {context.version}, {context.date}, {context.machine}."
    if not outcome.posterior.records:  # as read from a folder without its data
        return render_page(outcome.study.title, outcome.study.equation, sections, footer)
    content = posterior_content(outcome.posterior, title=outcome.study.title, draws=DRAWS)
    return render(content, sections, outcome.study.equation, footer)


def as_part(shown: rich.table.Table) -> PagePart:
    """A table of the terminal as a part of the page."""
    cells = [[str(cell).replace("\\[", "[") for cell in column.cells] for column in shown.columns]
    right = [j for j, column in enumerate(shown.columns) if column.justify == "right"]
    head = [str(column.header) for column in shown.columns]
    table = Table(list(zip(*cells, strict=True)), head, numeric=right)
    return PagePart("titled_table", TitledTable(str(shown.title), table))


def caption(name: str) -> str:
    """A sentence on what a picture shows, by its name."""
    what = name.removeprefix("test_").replace("_", " ")
    test = f"Test {what}: measured and free run, a part enlarged with a band of 90 % of the posterior, and the error."
    return CAPTIONS.get(name, test)
