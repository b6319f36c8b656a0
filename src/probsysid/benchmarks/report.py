"""One self-contained page for a case study: tables, and the pictures inside it."""

from collections.abc import Mapping
from pathlib import Path

from markupsafe import Markup
from rich.table import Table

from probsysid.benchmarks.run import Outcome
from probsysid.benchmarks.table import evidence_table, parameter_table, score_table
from probsysid.report.html.elements import PageSection, document, join, paragraph, picture, table

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
    """The page as HTML."""
    context = outcome.context
    about = "; ".join(sorted({limit.about for limit in context.limits.values()}))
    scores = join([as_html(score_table([outcome])), paragraph(f"Limit: {about}.", "soft")])
    solver = Markup("<p>Solver: <code>{}</code>.</p>").format(context.settings["solver"])
    figures = join(
        join([picture(png, caption(name)), paragraph(caption(name), "soft")]) for name, png in images.items()
    )
    sections = [
        PageSection("scores", "Prediction", scores),
        PageSection("parameters", "Parameters", as_html(parameter_table(outcome))),
        PageSection("run", "IBISState", join([as_html(evidence_table([outcome])), solver])),
        PageSection("figures", "Figures", figures),
    ]
    footer = f"probsysid {context.version}, {context.date}, {context.machine}."
    return document(outcome.study.title, outcome.study.equation, sections, footer)


def as_html(shown: Table) -> Markup:
    """A table of the terminal as one of the page."""
    cells = [[str(cell).replace("\\[", "[") for cell in column.cells] for column in shown.columns]
    right = [j for j, column in enumerate(shown.columns) if column.justify == "right"]
    head = [str(column.header) for column in shown.columns]
    return join([paragraph(shown.title), table(head, list(zip(*cells, strict=True)), right)])


def caption(name: str) -> str:
    """What a picture shows."""
    what = name.removeprefix("test_").replace("_", " ")
    test = f"Test {what}: measured and free run, a part enlarged with a band of 90 % of the posterior, and the error."
    return CAPTIONS.get(name, test)
