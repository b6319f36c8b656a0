"""What `import probsysid` and the command line's help import, and what they leave for later."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import probsysid as ps

HEAVY = {"jax", "numpy", "scipy", "numpyro", "pandas", "xarray", "arviz", "matplotlib", "dask"}


def imported_by(script: str) -> set[str]:
    """The packages that a fresh process has imported at the end of a script."""
    told = f"{script}\nimport sys; print(*sorted(name for name in sys.modules if '.' not in name), file=sys.stderr)"
    found = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, timeout=120)
    assert found.returncode == 0, found.stderr
    return set(found.stderr.splitlines()[-1].split())


@pytest.mark.parametrize("arguments", [["--help"], ["fit", "--help"], ["benchmark", "--help"], ["--version"]], ids=str)
def test_help_imports_no_numerics(arguments: list[str]) -> None:
    script = f"""
import contextlib, sys
sys.argv = ["probsysid", *{arguments}]
from probsysid.cli import main
with contextlib.suppress(SystemExit):
    main()
"""
    found = imported_by(script)
    assert "typer" in found and not found & HEAVY


def test_the_package_imports_no_numerics() -> None:
    assert not imported_by("import probsysid; print(probsysid.InputError, probsysid.__version__)") & HEAVY


def test_a_model_needs_no_pandas_nor_pictures() -> None:
    used = imported_by("import probsysid as ps; ps.Model({'x': 1}, lambda s, u, p: {'x': -s.x}); ps.dist.Normal(0, 1)")
    assert "jax" in used and not used & {"pandas", "xarray", "arviz", "matplotlib", "pydantic", "dask"}


def test_late_names_are_those_of_type_checkers() -> None:
    source = ast.parse(Path(ps.__file__).read_text())
    block = next(node for node in source.body if isinstance(node, ast.If))
    declared = {
        name.name: "dist" if node.module == "probsysid" else str(node.module).removeprefix("probsysid.")
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    assert declared == ps.LATE
    assert set(ps.LATE) < set(ps.__all__) <= set(dir(ps))
    for name in ps.__all__:
        assert getattr(ps, name) is not None
    for name in set(ps.LATE) - {"dist"}:
        assert getattr(ps, name).__module__ == f"probsysid.{ps.LATE[name]}"


def test_unknown_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="module 'probsysid' has no attribute 'Modell'"):
        ps.Modell  # noqa: B018


PRECISION = "import jax; print(jax.config.jax_enable_x64, jax.__spec__.loader.get_source('jax')[:0] == '')"


@pytest.mark.parametrize(
    "script",
    [
        f"import probsysid; {PRECISION}",
        f"import probsysid, importlib.util as u; u.find_spec('jax'); {PRECISION}",
        f"import jax, probsysid; {PRECISION}",
        f"import probsysid; probsysid.dist; {PRECISION}",
        f"import probsysid; probsysid.identify; {PRECISION}",
    ],
    ids=["before", "sought", "after", "by numpyro", "by us"],
)
def test_jax_is_configured_whoever_imports_it(script: str) -> None:
    """Before it computes anything: a script may use it before it uses anything of ours."""
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert found.stdout == "True True\n", found.stderr
