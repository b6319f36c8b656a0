"""The tutorials run, and become pages."""

import subprocess
import sys
from pathlib import Path

import pytest

from docs.extensions import cells
from docs.extensions.cells import page, split
from tests.docs.blocks import EXAMPLES

SCRIPT = '''"""A title.

Some words.
"""

# %% [markdown]
# ## A heading
#
# Text with `code`.

# %%
a = 1
print(a + 1)

# %%
from pathlib import Path

Path("drawn.png").write_bytes(b"picture")
'''


@pytest.fixture(autouse=True)
def _arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page's script sees its own arguments; they are restored afterwards."""
    monkeypatch.setattr(sys, "argv", sys.argv)


def test_a_page_has_text_code_output_and_pictures(tmp_path: Path) -> None:
    script = tmp_path / "small.py"
    script.write_text(SCRIPT)
    page(script, tmp_path / "out" / "small.md")
    text = (tmp_path / "out" / "small.md").read_text()
    assert text.startswith("# A title\n\nSome words.\n")
    assert "## A heading\n\nText with `code`." in text
    assert "```python\na = 1\nprint(a + 1)\n```" in text
    assert "```text\n2\n```" in text
    assert "![drawn](small-drawn.png)" in text
    assert (tmp_path / "out" / "small-drawn.png").read_bytes() == b"picture"


def test_an_error_names_the_line(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text('"""Bad."""\n\n# %%\n1 / 0\n')
    with pytest.raises(ZeroDivisionError) as caught:
        page(tmp_path / "bad.py", tmp_path / "bad.md")
    assert caught.traceback[-1].lineno == 3  # counted from 0


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_in_cells(script: Path) -> None:
    docstring, found = split(script.read_text())
    assert docstring.strip()
    assert any(cell.text for cell in found)
    for cell in found:
        if not cell.text:
            compile(cell.source, str(script), "exec")
    listed = (script.parents[1] / "docs" / "tutorials.md").read_text()
    assert f"(tutorials/{script.stem}.md)" in listed


@pytest.mark.long
@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_runs(script: Path, tmp_path: Path) -> None:
    """As for the site: in a separate process, where warnings, which one of them provokes, are not errors."""
    target = tmp_path / f"{script.stem}.md"
    done = subprocess.run([sys.executable, cells.__file__, script, target], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "```text" in target.read_text()
