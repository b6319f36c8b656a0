"""The report: what it says, that it needs nothing else, and that a browser shows it."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import probsysid as ps
from probsysid.report.html import residuals
from probsysid.report.html.downsample import BINS, chosen
from probsysid.report.html.formatting import plain, with_uncertainty
from probsysid.report.page import _anything, render
from probsysid.report.views import Content, DataView, ModelView
from probsysid.study.equations import parse
from probsysid.study.mathml import equation_of_motion, output_equation
from tests.report.browser import Browser, opened
from tests.study.small import fitted, loaded

READY = (
    "return typeof Bokeh !== 'undefined' && Bokeh.documents.length > 0 &&"
    " Bokeh.documents[0].roots().length === document.querySelectorAll('.figure div[data-root-id]').length &&"
    " document.querySelectorAll('.figure .bk-Figure, .figure .bk-GridPlot, .figure .bk-Column').length > 0"
)


WIDTHS = (
    "const id = document.querySelector('#fit .figure div[data-root-id]').dataset.rootId;"
    "const root = Bokeh.documents[0].get_model_by_id(id);"
    "return root.children.map(p => p.x_range.end - p.x_range.start);"
)
"""The width of each range over time in the section on the fit."""


class Collected(HTMLParser):
    """Addresses and text of a page."""

    def __init__(self, text: str):
        super().__init__()
        self.addresses: list[str] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list) -> None:
        self.open.append(tag)
        self.addresses += [value for key, value in attributes if key in ("src", "href") and value]

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, text: str) -> None:
        if not {"script", "style"} & set(self.open):
            self.words.append(text)


def page() -> str:
    return (fitted() / "lag-results" / "report.html").read_text()


def test_the_page_needs_nothing_else() -> None:
    found = Collected(page())
    assert all(address.startswith(("#", "data:")) for address in found.addresses)
    assert '<link rel="stylesheet"' not in page()


def test_the_page_says_what_was_found() -> None:
    text = " ".join(Collected(page()).words)
    for title in ("In short", "Data", "Model", "Parameters", "Fit", "States", "Residuals", "Sampling", "Settings"):
        assert title in text
    posterior = ps.Posterior.load(fitted() / "lag-results" / "posterior.nc")
    assert with_uncertainty(posterior.mean("a"), posterior.sd("a")) in text
    assert "gain" in text and "1/s" in text
    assert "LogNormal(0, 1)" in text  # the study as used
    assert f"{posterior.log_evidence:.1f}" in text


def test_words_of_the_user_are_text_and_not_code(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>"
    posterior = ps.Posterior.load(fitted() / "lag-results" / "posterior.nc")
    view = ModelView(evil, posterior, descriptions={"a": evil}, problems=[evil])
    record = ps.Record(outputs={"level": np.arange(5.0)}, dt=1.0, units={"level": evil}, name=evil)
    text = render(Content(evil, [DataView(evil, record, slice(0, 5), None, [evil], evil)], [view], study=evil))
    assert evil not in text
    assert "&lt;script&gt;alert(1)" in text


@pytest.mark.long
def test_a_posterior_reports_on_its_own(tmp_path: Path) -> None:
    _, _, (result,) = loaded()
    result.posterior.report(tmp_path / "own.html")
    assert "Residuals" in (tmp_path / "own.html").read_text()
    with pytest.raises(ps.InputError, match="loaded without its records"):
        replace(result.posterior, records=()).report(tmp_path / "no.html")


def test_what_settings_say_of_the_integration_is_shown() -> None:
    shown = _anything({"x": {"noise": 0.9, "integration": 0.1}, "y": {"noise": 0.5}})
    assert re.sub(r"<[^>]+>", " ", shown).split() == ["noise", "integration", "x", "0.9", "0.1", "y", "0.5"]
    assert _anything("two steps a sample suffice") == "<p>two steps a sample suffice</p>"


# Mathematics


def plain_text(mathml: str) -> str:
    return re.sub(r"<[^>]+>", "", mathml)


def test_equations_as_mathematics() -> None:
    shown = equation_of_motion("x", 2, parse("(force - c*dx - k3*x**3)/m"), {"x": 2})
    assert plain_text(shown).replace("\u2062", "") == "𝑥̈=force−c𝑥̇−k3x3m"
    assert "<mfrac>" in shown and "<msub><mi>k</mi>" in shown and "<msup>" in shown
    shown = output_equation("a b", parse("abs(z) + sqrt(2)*alpha - (x - y) + exp(-x)*1.5e-3"), {"x": 2, "z": 1})
    assert "<msqrt>" in shown and "α" in shown and "10" in shown
    assert plain_text(shown).count("(") == 1


@pytest.mark.parametrize(
    ("text", "spaced"),
    [("Tc*sin(x)", 1), ("c*dx", 0), ("m*sin(x)*c", 1), ("c*sqrt(x)", 0), ("gain*c", 1), ("c*gain**2", 1), ("2*c*x", 0)],
)
def test_words_and_functions_stand_clear_of_their_neighbours(text: str, spaced: int) -> None:
    assert output_equation("y", parse(text), {"x": 2}).count("<mspace") == spaced


def test_dots_stand_clear_of_capitals() -> None:
    shown = equation_of_motion("T1", 1, parse("-T1"), {"T1": 1})
    assert "<mover><mi>T</mi>" in shown and "\u0307" not in shown


def test_brackets_stay_where_they_are_needed() -> None:
    for text, brackets in [("a*(b + c)", 1), ("(a*b)*c", 0), ("(a + b)**2", 1), ("-(a + b)", 1), ("a - (b - c)", 1),
                           ("(a/b)**2", 1), ("a/(b + c)", 0), ("(-a)**2", 1), ("-a**2", 0)]:  # fmt: skip
        shown = plain_text(output_equation("y", parse(text), {"x": 1}))
        assert shown.count("(") == brackets, (text, shown)


def test_the_mathematics_is_well_formed() -> None:
    from xml.etree import ElementTree

    text = "where(x <= 0, min(a, 1_000), tanh(ddx)/3)**k_0 - atan2(F_c, 1e5)*omega2 + 2*3"
    ElementTree.fromstring(output_equation("<y>", parse(text), {"x": 2}).replace("&#160;", " "))


# Numbers, thinning, residuals


@pytest.mark.parametrize(
    ("value", "sd", "text"),
    [
        (1.002342, 0.0046, "1.0023"),
        (-0.10032, 0.0005, "−0.10032"),
        (51234.0, 120.0, "51234"),
        (1.23456e-7, 1.2e-9, "1.235·10⁻⁷"),
        (0.0, 0.1, "0.00"),
        (5.0, 0.0, "5"),
    ],
)
def test_digits_follow_the_uncertainty(value: float, sd: float, text: str) -> None:
    assert with_uncertainty(value, sd) == text


def test_plain_numbers() -> None:
    assert plain(float("nan")) == "—"
    assert plain(123456789.0) == "1.235·10⁸"


def test_thinning_keeps_every_extreme() -> None:
    random = np.random.default_rng(0)
    values = random.standard_normal(100_000)
    values[777], values[50_000] = 50.0, np.nan
    kept = chosen({"time": np.arange(100_000.0), "value": values}, ["value"])
    assert len(kept) <= 4 * BINS
    assert {0, 777, 99_999, int(np.nanargmin(values))} <= set(kept.tolist())
    np.testing.assert_array_equal(chosen({"value": values[:100]}, ["value"]), np.arange(100))


def test_white_and_coloured_errors_are_told_apart() -> None:
    random = np.random.default_rng(0)
    white = residuals.analyse(random.standard_normal((1, 2000)))
    assert white is not None and white.white
    # standard deviation of 2000 standard normals: 1 +- 0.016
    assert abs(white.spread - 1) < 4 * 0.016
    coloured = residuals.analyse(np.convolve(random.standard_normal(2000), [1, 0.5], "same")[None])
    assert coloured is not None and not coloured.white
    assert "not white" in residuals.verdict("y", coloured)
    assert residuals.analyse(np.zeros((3, 100))) is None
    gaps = random.standard_normal((4, 300))
    gaps[:, 10] = np.nan
    found = residuals.analyse(gaps, np.where(np.arange(300) == 20, np.nan, 1.0))
    assert found is not None and set(range(300)) - set(found.samples.tolist()) == {10, 20}


# In a browser


window = pytest.fixture(scope="module")(opened)


def test_a_browser_shows_it_without_an_error(window: Browser) -> None:
    window.resize(1200, 900)
    window.open(fitted() / "lag-results" / "report.html", READY)
    assert [entry for entry in window.log() if entry["level"] in ("SEVERE", "WARNING")] == []
    assert (
        window.run("return performance.getEntriesByType('resource').filter(e => e.name.startsWith('http')).length") == 0
    )
    assert window.run("return document.querySelectorAll('math').length") == 2
    assert window.pdf()[:5] == b"%PDF-"


def test_dragging_over_a_stretch_zooms(window: Browser) -> None:
    window.resize(1200, 900)
    window.open(fitted() / "lag-results" / "report.html", READY)
    window.run("document.querySelector('#fit .figure').scrollIntoView({behavior: 'instant'})")
    box = window.run(
        "const b = document.querySelector('#fit .figure').getBoundingClientRect(); return [b.x, b.y, b.width, b.height]"
    )
    before = window.run(WIDTHS)
    left, middle = round(box[0]), round(box[1] + 0.3 * box[3])
    window.drag((left + round(0.3 * box[2]), middle), (left + round(0.6 * box[2]), middle))
    after = window.run(WIDTHS)
    assert min(after) < 0.5 * max(before)


def test_a_hundred_thousand_samples_stay_quick(window: Browser, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    record = ps.Record({"u": random.standard_normal(100_000)}, {"y": random.standard_normal(100_000)}, dt=1e-3)
    posterior = ps.Posterior.load(fitted() / "lag-results" / "posterior.nc")
    view = DataView("long", record, slice(0, 1000), slice(1000, 100_000))
    (tmp_path / "long.html").write_text(render(Content("long", [view], [ModelView("lag", posterior)])))
    window.open(tmp_path / "long.html", READY)
    script = """
        const id = document.querySelector('#data .figure div[data-root-id]').dataset.rootId;
        const plot = Bokeh.documents[0].get_model_by_id(id).children[0];
        const source = plot.renderers[0].data_source, before = source.data.time.length, began = performance.now();
        plot.x_range.setv({start: 20, end: 21});
        return new Promise((done) => requestAnimationFrame(() => setTimeout(() => done(
          [before, source.data.time.length, Math.min(...source.data.time), performance.now() - began]))));
    """
    before, after, first, milliseconds = window.run(script)
    assert before <= 4 * BINS
    # a second of a record at 1 kHz is shown in full, with a neighbour on each side
    assert 1000 <= after <= 1004
    assert 19.99 <= first <= 20
    assert milliseconds < 500
    assert [entry for entry in window.log() if entry["level"] == "SEVERE"] == []


def test_a_phone_and_the_dark(window: Browser) -> None:
    window.resize(390, 800)
    window.open(fitted() / "lag-results" / "report.html", READY)
    assert window.run("return document.documentElement.scrollWidth") <= 390
    assert window.run("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    window.dark()
    red = window.run("return parseInt(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0])")
    assert red < 60
