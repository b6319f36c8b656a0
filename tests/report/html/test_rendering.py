"""Templates: all can be read and compiled, they escape what they show, and missing names are errors."""

from importlib.resources import files
from pathlib import PurePosixPath

import jinja2
import pytest
from bokeh.plotting import figure

from probsysid.report.html.rendering import InteractiveFigures, environment, render_page
from probsysid.report.views import (
    Drawing,
    PagePart,
    PageSection,
    ParameterRow,
    Parameters,
    ParameterTable,
    RecordSummary,
    Table,
    TitledTable,
)


def body(template: str, content: object, figures: InteractiveFigures | None = None) -> str:
    """A page with one part, from its heading on, without the newlines that the layout leaves."""
    text = render_page("title", "", [PageSection("here", "Here", [PagePart(template, content)])], "", figures)
    return text.split("<h2>Here</h2>")[1].split("</section>")[0].replace("\n", "")


def test_every_template_compiles() -> None:
    place = files("probsysid.report") / "templates"
    names = [path.name for path in place.iterdir() if path.name.endswith(".jinja")]
    names += [str(PurePosixPath("sections", path.name)) for path in (place / "sections").iterdir()]
    assert {"frame.html.jinja", "macros.html.jinja", "sections/summary.html.jinja"} <= set(names)
    for name in names:
        assert environment().get_template(name).name == name


def test_a_name_that_is_not_there_is_an_error() -> None:
    with pytest.raises(jinja2.UndefinedError, match="no attribute 'title'"):
        body("titled_table", object())


def test_tables_align_numbers_and_emphasise_the_best() -> None:
    table = Table([["a <b>", 1], ["c", 2]], ["", "n & m"], numeric=(1,), best=True)
    assert body("titled_table", TitledTable("T", table)) == (
        '<p>T</p><div class="scroll"><table><tr><th></th><th class="n">n &amp; m</th></tr>'
        '<tr class="best"><td>a &lt;b&gt;</td><td class="n">1</td></tr><tr><td>c</td><td class="n">2</td></tr>'
        "</table></div>"
    )
    assert "<th" not in body("titled_table", TitledTable("T", Table([["a", "b"]])))


def test_parameters_have_raised_exponents_and_flags() -> None:
    rows = [
        ParameterRow("k<", "", "1", "2", "0 … 3", "N/m^3", "at prior"),
        ParameterRow("g", "", "4", "given", "", "m^2/<i>", given=True),
    ]
    shown = Parameters(
        ParameterTable(rows, False, True),
        ("only b*c is known",),
        True,
        Drawing("m", b"1"),
        Table([]),
        Drawing("c", None),
    )
    text = body("parameters", shown)
    assert "<td><b>k&lt;</b></td>" in text
    assert '<td>N/m<sup>3</sup></td><td><span class="flag">at prior</span></td>' in text
    assert "<td>m<sup>2</sup>/&lt;i&gt;</td><td></td>" in text
    assert "<p>Not identified: only b*c is known.</p>" in text
    assert "what" not in text
    assert '<img alt="m" src="data:image/png;base64,MQ==">' in text
    assert '<div class="warn">c: this could not be drawn, for the posterior has no spread.</div>' in text


def test_interactive_figures_stand_where_they_are_named() -> None:
    figures = InteractiveFigures()
    keys = [figures.add(figure()) for _ in range(2)]
    shown = [body("data", RecordSummary(Table([]), key), figures) for key in keys]
    assert all(text.count("data-root-id=") == 1 for text in shown)
    assert shown[0] != shown[1]


def test_a_page_without_figures_carries_no_script() -> None:
    assert "<script" not in render_page("title", "", [], "")


@pytest.mark.parametrize(
    "text", ["@@script@@", "@@style@@", "{{ 7 * 7 }}", "{% if x %}", "{# note #}", "${title}", "%(title)s"]
)
def test_placeholders_of_any_kind_are_text(text: str) -> None:
    """A page is filled in once: what the user wrote is not looked through for more to fill in."""
    page = render_page(
        text, text, [PageSection("here", text, [PagePart("titled_table", TitledTable(text, Table([[text]])))])], text
    )
    # title (twice), subtitle, section (in the navigation, too), title and cell of the table, footer
    assert page.count(text) == 8


def test_placeholders_in_figures_are_text() -> None:
    figures = InteractiveFigures()
    key = figures.add(
        figure(title="@@script@@ </script><script>alert(1)</script> {{ 7 * 7 }}", x_axis_label="</script>")
    )
    page = render_page(
        "t", "", [PageSection("here", "Here", [PagePart("data", RecordSummary(Table([]), key))])], "", figures
    )
    assert "@@script@@" in page and "{{ 7 * 7 }}" in page and "<script>alert(1)" not in page
