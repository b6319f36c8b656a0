"""The site builds without warnings, is complete, and loads no external resources."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.docs.blocks import EXAMPLES, ROOT
from tests.report.browser import Browser, opened

pytestmark = pytest.mark.long


class Loaded(HTMLParser):
    """Addresses that a browser fetches when it renders the page."""

    def __init__(self, text: str):
        super().__init__()
        self.addresses: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list) -> None:
        given = dict(attributes)
        if tag in ("img", "script", "iframe", "source"):
            self.addresses.append(given.get("src") or "")
        if tag == "link" and given.get("rel") in ("stylesheet", "icon", "preload"):
            self.addresses.append(given["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if find_spec("sphinx") is None:
        pytest.skip("sphinx is not installed: make docs installs it")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-d", str(folder / "cache")]
    done = subprocess.run([*command, str(ROOT / "docs"), str(folder / "html")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "html"


def test_all_pages_are_there(site: Path) -> None:
    for name in ("index", "start", "tutorials", "study-files", "api", "method", "deviations", "benchmarks"):
        assert (site / f"{name}.html").exists()
    for script in EXAMPLES:
        assert "output" in (site / "tutorials" / f"{script.stem}.html").read_text()


def test_nothing_comes_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        outside = [a for a in Loaded(page.read_text()).addresses if re.match(r"(https?:)?//", a)]
        assert outside == [], page
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*[\"']?(https?:)?//", sheet.read_text()), sheet


def test_public_names_are_in_the_reference(site: Path) -> None:
    import probsysid as ps

    text = (site / "api.html").read_text()
    assert [name for name in ps.__all__ if name not in ("__version__",) and name not in text] == []


window = pytest.fixture(scope="module")(opened)


def test_a_browser_shows_it_on_a_desk_and_on_a_phone(site: Path, window: Browser) -> None:
    for width in (1200, 390):
        window.resize(width, 900)
        for name in ("index", "method", "api", "tutorials/duffing"):
            window.open(site / f"{name}.html", "return document.readyState === 'complete'")
            assert [entry for entry in window.log() if entry["level"] == "SEVERE"] == []
            assert window.run("return document.documentElement.scrollWidth") <= width, (name, width)
    window.open(site / "method.html", "return document.readyState === 'complete'")
    assert window.run("return document.querySelectorAll('math').length") > 5
