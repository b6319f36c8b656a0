"""Every script in examples/ is run and becomes a page; it runs again only when it or the package has changed."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util import logging

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "tutorials"


def fingerprint(script: Path) -> str:
    """Hash of everything that a page depends on: the script, what runs it, and the package."""
    found = hashlib.sha256()
    for path in (script, Path(__file__).with_name("cells.py"), *sorted((ROOT / "src").rglob("*.py"))):
        found.update(path.read_bytes())
    return found.hexdigest()


def make(script: Path) -> None:
    """Run one script in a separate process."""
    target = FOLDER / f"{script.stem}.md"
    stamp = FOLDER / f".{script.stem}"
    mark = fingerprint(script)
    if target.exists() and stamp.exists() and stamp.read_text() == mark:
        return
    logging.getLogger(__name__).info(f"running {script.relative_to(ROOT)}")
    command = [sys.executable, str(Path(__file__).with_name("cells.py")), str(script), str(target)]
    done = subprocess.run(command, env={**os.environ, "MPLBACKEND": "Agg"}, capture_output=True, text=True)
    if done.returncode:
        raise ExtensionError(f"{script} failed:\n{done.stderr[-4000:]}")
    stamp.write_text(mark)


def make_all(app: Sphinx) -> None:
    """Run every script whose page is out of date."""
    FOLDER.mkdir(exist_ok=True)
    scripts = sorted((ROOT / "examples").glob("*.py"))
    for page in FOLDER.glob("*.md"):
        if page.stem not in {script.stem for script in scripts}:
            page.unlink()
    for script in scripts:
        make(script)


def setup(app: Sphinx) -> dict[str, Any]:
    """Run before the pages are read."""
    app.connect("builder-inited", make_all)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
