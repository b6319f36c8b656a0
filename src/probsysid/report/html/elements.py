"""What a page is made of: sections, tables, pictures, and the frame around them."""

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from jinja2 import Environment
from markupsafe import Markup


@dataclass(frozen=True)
class PageSection:
    """A part of the page."""

    anchor: str
    title: str
    body: Markup


def document(
    title: str, subtitle: str, sections: Sequence[PageSection], footer: str, resources: str = "", script: str = ""
) -> str:
    """The whole page: style inside, nothing outside."""
    place = files("probsysid.report.html")
    template = Environment(autoescape=True).from_string((place / "page.html.jinja").read_text())
    return template.render(
        title=title,
        subtitle=subtitle,
        sections=sections,
        footer=footer,
        style=(place / "style.css").read_text(),
        resources=resources,
        script=script,
    )


def join(parts: Iterable[Markup]) -> Markup:
    """One below the other."""
    return Markup("\n").join(parts)


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[Any]],
    numeric: Iterable[int] = (),
    best: bool = False,
    spare: Iterable[int] = (),
) -> Markup:
    """A table that scrolls sideways on a narrow screen, without its spare columns; columns of numbers to the right."""
    classes = {**dict.fromkeys(numeric, "n"), **dict.fromkeys(spare, "spare")}

    def cell(tag: str, j: int, value: Any) -> Markup:
        kind = Markup(f' class="{classes[j]}"') if j in classes else ""
        return Markup("<{0}{1}>{2}</{0}>").format(Markup(tag), kind, value)

    top = Markup("").join(cell("th", j, title) for j, title in enumerate(head))
    body = []
    for i, row in enumerate(rows):
        cells = Markup("").join(cell("td", j, value) for j, value in enumerate(row))
        body.append(Markup("<tr{}>{}</tr>").format(Markup(' class="best"') if best and i == 0 else "", cells))
    header = Markup("<tr>{}</tr>").format(top) if any(head) else ""
    return Markup('<div class="scroll"><table>{}{}</table></div>').format(header, Markup("").join(body))


def paragraph(text: Any, kind: str = "") -> Markup:
    """A paragraph, of a class of the style sheet if one is named."""
    return Markup("<p{}>{}</p>").format(Markup(f' class="{kind}"') if kind else "", text)


def warning(text: Any) -> Markup:
    """Something to look at."""
    return Markup('<div class="warn">{}</div>').format(text)


def picture(png: bytes, description: str) -> Markup:
    """A drawing that the page carries inside."""
    encoded = base64.b64encode(png).decode()
    image = Markup('<img alt="{}" src="data:image/png;base64,{}">').format(description, encoded)
    return Markup('<div class="figure">{}</div>').format(image)
