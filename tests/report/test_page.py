"""The report: what it says, that it is self-contained, and that a browser shows it."""

from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import probsysid as ps
from probsysid.report.html.downsample import BINS
from probsysid.report.html.formatting import with_uncertainty
from probsysid.report.page import render
from probsysid.report.views import Content, DataView, ModelView
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


def test_words_of_the_user_are_text_and_not_code() -> None:
    posterior = ps.Posterior.load(fitted() / "lag-results" / "posterior.nc")

    def written(words: str) -> str:
        view = ModelView(words, posterior, descriptions={"a": words}, problems=[words])
        record = ps.Record(outputs={"level": np.arange(5.0)}, dt=1.0, units={"level": words}, name=words)
        data = DataView(words, record, slice(0, 5), None, [words], words)
        return render(Content(words, [data], [view], study=words))

    # HTML, place holders of an earlier layout, Jinja
    evil = "<script>alert(1)</script> @@script@@ @@resources@@ @@figure0@@ {{ 7 * 7 }} {% include 'style.css' %}"
    text, harmless = written(evil), written("harmless")
    assert "<script>alert" not in text
    assert text.count("<script") == harmless.count("<script")
    assert text.count("<style") == harmless.count("<style") == 1
    assert text.count("data-root-id=") == harmless.count("data-root-id=") == 2  # the record's figure, the sampler's
    assert Collected(text).words.count(evil) == Collected(harmless).words.count("harmless") > 0


@pytest.mark.long
def test_a_posterior_reports_on_its_own(tmp_path: Path) -> None:
    _, _, (result,) = loaded()
    result.posterior.report(tmp_path / "own.html")
    assert "Residuals" in (tmp_path / "own.html").read_text()
    with pytest.raises(ps.InputError, match="has no records"):
        replace(result.posterior, records=()).report(tmp_path / "no.html")


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
