"""One self-contained page for a case study: tables, and the pictures inside it."""

import base64
import html
from collections.abc import Mapping
from pathlib import Path

from rich.table import Table

from probsysid.benchmarks.run import Outcome
from probsysid.benchmarks.table import evidence_table, parameter_table, score_table

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

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; margin: 1rem 0; font-size: 13px; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid #ddd; text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
caption { text-align: left; font-weight: 600; padding-bottom: .3rem; }
figure { margin: 1.5rem 0; } img { max-width: 100%; } figcaption { color: #555; font-size: 13px; }
.wide { overflow-x: auto; }
"""


def write_report(outcome: Outcome, images: Mapping[str, bytes], path: Path) -> None:
    """Write the page."""
    path.write_text(page(outcome, images), encoding="utf-8")


def page(outcome: Outcome, images: Mapping[str, bytes]) -> str:
    """The page as HTML."""
    context = outcome.context
    tables = (score_table([outcome]), parameter_table(outcome), evidence_table([outcome]))
    title = html.escape(outcome.study.title)
    about = sorted({limit.about for limit in context.limits.values()})
    parts = [
        f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>{title}</title>",
        f"<style>{STYLE}</style></head><body><h1>{title}</h1>",
        f"<p><code>{html.escape(outcome.study.equation)}</code></p>",
        *(f"<div class='wide'>{as_html(table)}</div>" for table in tables),
        f"<p>Limit: {html.escape('; '.join(about))}.</p>",
        *(_figure(name, image) for name, image in images.items()),
        f"<p>probsysid {context.version}, {context.date}, {html.escape(context.machine)}.<br>",
        f"Solver: <code>{html.escape(context.settings['solver'])}</code>.</p></body></html>",
    ]
    return "\n".join(parts)


def as_html(table: Table) -> str:
    """A rich table as an HTML table."""
    head = "".join(f"<th>{html.escape(str(column.header))}</th>" for column in table.columns)
    cells = [[str(cell) for cell in column.cells] for column in table.columns]
    rows = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell.replace(chr(92), ''))}</td>" for cell in row) + "</tr>"
        for row in zip(*cells, strict=True)
    )
    return f"<table><caption>{html.escape(str(table.title))}</caption><tr>{head}</tr>{rows}</table>"


def _figure(name: str, image: bytes) -> str:
    encoded = base64.b64encode(image).decode()
    caption = html.escape(CAPTIONS.get(name, _test_caption(name)))
    picture = f"<img alt='{caption}' src='data:image/png;base64,{encoded}'>"
    return f"<figure>{picture}<figcaption>{caption}</figcaption></figure>"


def _test_caption(name: str) -> str:
    what = name.removeprefix("test_").replace("_", " ")
    return f"Test {what}: measured and free run, a part enlarged with a band of 90 % of the posterior, and the error."
