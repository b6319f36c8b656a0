"""Interactive figures for notebooks: self-contained, in a frame."""

import re
from html import unescape
from pathlib import Path

import pytest

import probsysid as ps
from tests.study.small import fitted


@pytest.fixture(scope="module")
def posterior() -> ps.Posterior:
    return ps.Posterior.load(fitted() / "lag-results" / "posterior.nc")


def test_fit_and_states_are_frames_without_a_network(posterior: ps.Posterior, tmp_path: Path) -> None:
    for figure, label in ((posterior.plot.interactive_fit(), "level"), (posterior.plot.interactive_states(), "h [m]")):
        shown = figure._repr_html_()
        assert shown.startswith("<iframe") and shown.endswith("</iframe>")
        page = unescape(shown.split('srcdoc="')[1])
        assert label in page and "<script" in page
        assert not re.search(r'<(script|link|img)[^>]+(src|href)="http', page)
        figure.save(tmp_path / "figure.html")
        assert label in (tmp_path / "figure.html").read_text()
        assert len(repr(figure)) < 60


def test_without_a_record_one_is_asked_for(posterior: ps.Posterior) -> None:
    from dataclasses import replace

    with pytest.raises(ps.InputError, match="no training record"):
        replace(posterior, records=()).plot.interactive_fit()
