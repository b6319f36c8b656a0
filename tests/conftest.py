"""Settings for all tests."""

import os
import warnings
from pathlib import Path

# Before anything imports jax: the numbers in these tests are for the CPU.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# The options for XLA that probsysid sets itself, without those for LLVM: these make long runs faster and compilation
# several times slower, and tests mostly compile.  perf/kernel.py checks the energies with all of them.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=64000000,xla_cpu_use_multi_output_fusion=true"
    " --xla_disable_hlo_passes=cpu_multi_output_fusion",
)
# Compiled programs are shared by the processes of one run, and kept for the next.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "programs"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.3")
# One device a process: the suite runs in as many processes as there are cores.
os.environ.setdefault("PROBSYSID_DEVICES", "1")

# ArviZ notes in a file that it has given its warning of the day; processes that import it at once fail in doing so.
if "PYTEST_XDIST_WORKER" not in os.environ:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import arviz  # noqa: F401

import pytest
from hypothesis import settings

from tests.shapes import check_package

# Shapes and types of arrays in signatures are checked while tests run.  Before anything imports probsysid.
check_package("probsysid")

# Same examples in every run; no deadline, because the first example of a shape includes its compilation.
settings.register_profile("probsysid", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("probsysid")

SLOW_FILES = (
    "test_ibis",
    "test_posterior",
    "test_fit",
    "test_linear_gaussian",
    "test_convergence",
    "test_page",
    "test_parameter_space",
    "test_real_data",
    "test_online",
    "test_probdiffeq",
    "test_sharding",
    "test_honesty",
    "test_automatic",
    "test_checkpoints",
)
"""They go first: a file that takes half a minute must not begin when the other process has nothing left to do."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: SLOW_FILES.index(item.path.stem) if item.path.stem in SLOW_FILES else len(SLOW_FILES))
