"""Every study can be imported: they run too long for the quick suite, and a renamed function would go unnoticed."""

import importlib
from pathlib import Path

import pytest

import validation

FOLDER = Path(validation.__file__).parent
IN_ANOTHER_ENVIRONMENT = ("select_pysindy_worker", "smc2_worker")
"""Programs that import the library they measure."""

MODULES = sorted(
    ".".join(("validation", *path.relative_to(FOLDER).with_suffix("").parts))
    for path in FOLDER.rglob("*.py")
    if path.stem not in IN_ANOTHER_ENVIRONMENT
)


@pytest.mark.parametrize("name", MODULES)
def test_it_can_be_imported(name: str) -> None:
    importlib.import_module(name)
