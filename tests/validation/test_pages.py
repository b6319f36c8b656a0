"""Pages of validation: a study that was run changes its own section and no other."""

import re
from pathlib import Path

import pytest

from validation import page
from validation.honesty import page as honesty_page

KILLS = {
    "kills": 3,
    "checkpoints in the middle of a run": 2,
    "identical": True,
    "checkpoints never go back": True,
    "unfinished files left behind": 0,
}
FACTS = {"date": "2001-02-03", "version": "0", "machine": "an abacus", "seconds": 60.0}


def test_every_study_has_a_published_section() -> None:
    assert set(page.published(page.PAGE.read_text())) == set(page.SECTIONS)


def test_a_result_replaces_its_own_section_alone(tmp_path: Path) -> None:
    before = page.PAGE.read_text()
    copy = tmp_path / "page.md"
    copy.write_text(before)
    page.write({}, copy)
    assert copy.read_text() == before
    page.write({"kills": {"result": KILLS, **FACTS}}, copy)
    after = copy.read_text()
    assert "3 SIGKILLs" in after and "an abacus, 1 min" in after
    kills = re.compile(r"^## Killed and resumed$.*?(?=^## )", re.MULTILINE | re.DOTALL)
    assert kills.sub("", after) == kills.sub("", before)


def test_a_first_result_begins_the_page(tmp_path: Path) -> None:
    page.write({"kills": {"result": KILLS, **FACTS}}, tmp_path / "page.md")
    assert set(page.published((tmp_path / "page.md").read_text())) == {"kills"}


def test_an_unfinished_matrix_is_not_published(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    published = tmp_path / "validation.md"
    published.write_text("as it was")
    honesty_page.write(tmp_path / "no results", "an abacus", published)
    assert published.read_text() == "as it was"
    assert "is left as it is" in capsys.readouterr().out


@pytest.mark.parametrize("prose", ["INTRODUCTION", "GUIDE", "SCORES", "MISSES"])
def test_the_published_page_has_the_prose_of_the_script(prose: str) -> None:
    """A figure needs the study again; a sentence must not be changed in one place only."""
    assert getattr(honesty_page, prose) in honesty_page.PAGE.read_text()


def test_the_published_page_of_the_sampler_begins_as_the_script_has_it() -> None:
    assert page.PAGE.read_text().startswith(page.TITLE)
