"""The package works, or says why not, in surroundings that are not a developer's."""

import os
import subprocess
import sys

import pytest


def python(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    given = {**os.environ, "JAX_COMPILATION_CACHE_DIR": "", **environment}
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=given, timeout=120)


def test_a_user_without_a_home_can_import_it() -> None:
    script = """
import os, pathlib
os.environ.pop("HOME", None); os.environ.pop("XDG_CACHE_HOME", None)
def nowhere(*_):
    raise RuntimeError("Could not determine home directory.")
pathlib.Path.home = classmethod(nowhere)
import probsysid, jax
print(jax.config.values["jax_compilation_cache_dir"] or None)
"""
    found = python(script)
    assert (found.stdout, found.returncode) == ("None\n", 0), found.stderr


def test_a_relative_cache_folder_is_ignored() -> None:
    script = "import probsysid, jax; print(jax.config.values['jax_compilation_cache_dir'])"
    found = python(script, XDG_CACHE_HOME="caches", HOME="/nowhere")
    assert found.stdout.startswith("/nowhere/.cache/probsysid/programs-"), found.stderr


@pytest.mark.parametrize("begun", [True, False])
def test_a_fork_after_use_is_refused(begun: bool) -> None:
    """Before JAX has begun, a fork is fine; after it, every computation would wait for missing threads."""
    script = f"""
import os, warnings
import jax.numpy as jnp, probsysid as ps
warnings.simplefilter("ignore")
if {begun}:
    jnp.ones(3) + 1
child = os.fork()
if child == 0:
    try:
        ps.Model({{"x": 1}}, lambda s, u, p: {{"x": -s.x}})
        print("made", flush=True)
    except ps.InputError as error:
        print(error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
ps.Model({{"x": 1}}, lambda s, u, p: {{"x": -s.x}})
"""
    found = python(script)
    assert found.returncode == 0, found.stderr
    assert ("get_context('spawn')" in found.stdout) is begun
    assert (found.stdout == "made\n") is not begun
