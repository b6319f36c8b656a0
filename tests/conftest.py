"""Settings for all tests."""

import ctypes
import gc
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

# Before anything imports jax: the numbers in these tests are for the CPU.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# The options for XLA that probsysid sets itself, but machine code is not optimised, and fusions are not emitted through
# MLIR: tests mostly compile, which takes less than half as long so (docs/decisions.md).
# tests/parallel/test_sharding.py and perf/kernel.py run with all options.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=64000000,xla_cpu_use_multi_output_fusion=true"
    " --xla_disable_hlo_passes=cpu_multi_output_fusion --xla_backend_optimization_level=0"
    " --xla_cpu_use_fusion_emitters=false",
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

import jax
import pytest
from hypothesis import settings

from tests.shapes import check_package

# JAX makes and drops a million small objects per program, hardly any in cycles: by default every tenth second of the
# suite would go to the search for cycles.
gc.set_threshold(200_000, 50, 100)

# Shapes and types of arrays in signatures are checked while tests run.  Before anything imports probsysid.
check_package("probsysid")

# Same examples in every run; no deadline, because the first example of a shape includes its compilation.
settings.register_profile("probsysid", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("probsysid")


@pytest.fixture(scope="module", autouse=True)
def release_programs() -> Iterator[None]:
    """Compiled programs stay in memory for as long as JAX's caches hold them: megabytes each, thousands of them.  Few
    of them serve two files, so the caches are emptied after a file that leaves more than MOST_MEMORY behind."""
    yield
    if memory() > MOST_MEMORY:
        jax.clear_caches()
        gc.collect()
        if hasattr(ctypes.CDLL(None), "malloc_trim"):  # glibc keeps what is freed in small pieces
            ctypes.CDLL(None).malloc_trim(0)


MOST_MEMORY = 1.2e9


def memory() -> float:
    """Bytes that this process has in memory; 0 where the system does not say."""
    try:
        return float(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0.0


SLOW_FILES = (
    "test_varies",
    "test_advice",
    "test_online",
    "test_noise_kinds",
    "test_posterior",
    "test_smoother",
    "test_misfit",
    "test_fit",
    "test_predict",
    "test_ibis",
    "test_automatic",
    "test_coloured_noise",
    "test_honesty",
    "test_process_noise",
    "test_linear_gaussian",
    "test_convergence",
    "test_page",
    "test_parameter_space",
    "test_real_data",
    "test_probdiffeq",
    "test_sharding",
    "test_checkpoints",
)
"""They go first: a file that takes half a minute must not begin when the other process has nothing left to do."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: SLOW_FILES.index(item.path.stem) if item.path.stem in SLOW_FILES else len(SLOW_FILES))
