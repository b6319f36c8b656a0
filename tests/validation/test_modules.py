"""Every study can be imported: they run too long for the quick suite, and a renamed function would go unnoticed."""

import importlib
from pathlib import Path

import pytest

import validation

FOLDER = Path(validation.__file__).parent
MODULES = sorted(
    ".".join(("validation", *path.relative_to(FOLDER).with_suffix("").parts)) for path in FOLDER.rglob("*.py")
)


@pytest.mark.parametrize("name", MODULES)
def test_it_can_be_imported(name: str) -> None:
    importlib.import_module(name)
