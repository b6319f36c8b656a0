"""Pages from templates: the Jinja environment, and the interactive figures that a page embeds."""

import base64
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from bokeh.embed import components
from bokeh.model import Model
from bokeh.resources import Resources
from jinja2 import Environment, FunctionLoader, StrictUndefined

from probsysid.report.html.formatting import raised
from probsysid.report.views import PageSection


class InteractiveFigures:
    """Bokeh figures of one page by key: a page embeds them all with one script."""

    def __init__(self) -> None:
        self.models: dict[str, Model] = {}

    def add(self, model: Model) -> str:
        """Register a figure; templates show it by the key returned."""
        key = f"figure{len(self.models)}"
        self.models[key] = model
        return key

    def embedded(self) -> tuple[str, Mapping[str, str], str]:
        """Bokeh's library, the element of each figure by key, and the script that draws them."""
        if not self.models:
            return "", {}, ""
        script, elements = components(self.models)
        library = Resources(mode="inline", components=["bokeh"], log_level="error").render()
        return library, elements, script


def render_page(
    title: str,
    subtitle: str,
    sections: Sequence[PageSection],
    footer: str,
    figures: InteractiveFigures | None = None,
) -> str:
    """A self-contained page: style, pictures and scripts inside."""
    library, elements, script = (figures or InteractiveFigures()).embedded()
    template = environment().get_template("frame.html.jinja")
    return template.render(
        title=title,
        subtitle=subtitle,
        sections=sections,
        footer=footer,
        style=source("style.css"),
        figures=elements,
        resources=library,
        script=script,
    )


@cache
def environment() -> Environment:
    """Templates of this package, with autoescaping; an undefined name is an error."""
    made = Environment(
        loader=FunctionLoader(source), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.filters["base64"] = lambda content: base64.b64encode(content).decode()
    made.filters["raised"] = raised
    return made


def source(name: str) -> str:
    """The text of a template or style sheet of this package, also from a zipped installation."""
    place: Traversable = files("probsysid.report") / "templates"
    return place.joinpath(*name.split("/")).read_text(encoding="utf-8")
