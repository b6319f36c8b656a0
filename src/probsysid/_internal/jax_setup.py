"""Process-wide settings that probsysid needs from JAX, made when this module is imported (`jax_import`).

Double precision is not optional: a filter over thousands of samples in single precision is garbage.

The options for XLA's CPU compiler let it turn the filter's time loop into one vectorised machine-code function; they
are worth a factor of 4 to 9 (docs/decisions.md).  They only take effect when JAX has not run anything yet; later they
are harmless.  One of them, fusion of several outputs, makes XLA end the process on some programs (numpyro's LKJCholesky
is one), so it is left out of every program but those of `jit_fused`.

Every core becomes a JAX device, over which particles are partitioned; `PROBSYSID_DEVICES` sets another number.
Programs run in the thread that calls them; JAX would hand them to another one (`parallel/threads.py`).

Compiled programs are cached in the user's cache folder, so that the next run of the same model starts at once;
`JAX_COMPILATION_CACHE_DIR` sets another folder, `JAX_ENABLE_COMPILATION_CACHE=false` turns it off.
"""

import hashlib
import os
import platform
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from probsysid._internal.errors import InputError
from probsysid._internal.program_cache import remove_damaged

LOOP_BYTES = 64_000_000
"""Loops that touch less memory than this are compiled whole: those over a block of particles, even of large states."""

XLA_OPTIONS = (
    f"xla_cpu_small_while_loop_byte_threshold={LOOP_BYTES}",
    "xla_cpu_use_multi_output_fusion=true",
)
"""Options that an XLA version does not know are ignored by it: they travel in a free-form map."""

FUSION = "cpu_multi_output_fusion"
"""XLA's name for the pass that `xla_cpu_use_multi_output_fusion` adds."""

SHARING = "cpu-parallel-task-assigner"
"""XLA's name for the pass that splits single operations over all cores.  Where every core has a thread with its own
particles, it would oversubscribe the cores."""

LLVM_OPTIONS = (
    "-runtime-memory-check-threshold=1000",
    "-vectorize-memory-check-threshold=2000",
    "-memory-check-merge-threshold=1000",
    "-force-vector-interleave=1",
    "-unroll-count=1",
    "-pre-RA-sched=fast",
)
"""Without the first three LLVM gives up on vectorising loops over as many arrays as a filter step has.  Unrolling makes
them no faster and takes a quarter of the time to compile, or half of it."""

X86_OPTIONS = ("-x86-machine-combiner=false",)
"""With the last one above it makes large states compile in half the time: LLVM puts all checks that arrays do not
overlap into one block of code, and these two passes take time with the square of its length."""

NARROW, WIDE = ("-force-vector-width=4",), ("-force-vector-width=8", "-enable-misched=false")
"""For processors with AVX-512 eight numbers at a time, with instructions in the order in which they were written:
22 and 72 ns for the two kernels of perf/kernel.py instead of 25 and 86."""

LLVM_TESTED = ("0.10.",)
"""Versions of jaxlib for which the options above were tried: LLVM ends the process at an option it does not know."""


DEVICES = "PROBSYSID_DEVICES"

SHORTEST_KEPT = 0.1
"""Seconds of compilation above which a program is cached; writing a smaller one takes as long as compiling it."""


def configure() -> None:
    """Enable double precision, make every core a device, cache programs, and ask XLA for whole-loop compilation."""
    jax.config.update("jax_enable_x64", True)
    _dispatch_synchronously()
    _make_devices()
    _keep_programs()
    flags = os.environ.get("XLA_FLAGS", "")
    if "xla_backend_extra_options" in flags:
        return
    options = XLA_OPTIONS + (_llvm_options() if version("jaxlib").startswith(LLVM_TESTED) else ())
    left_out = "" if "xla_disable_hlo_passes" in flags else f" --xla_disable_hlo_passes={FUSION}"
    os.environ["XLA_FLAGS"] = f"{flags} --xla_backend_extra_options={','.join(options)}{left_out}".strip()


class _Fork(threading.local):
    """Whether JAX had begun when this process was forked, as noted just before."""

    begun = False


_FORK = _Fork()
_FORKED = threading.Event()


def _note_fork() -> None:
    _FORK.begun = _begun()


def _after_fork() -> None:
    if _FORK.begun:
        _FORKED.set()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_note_fork, after_in_child=_after_fork)


def check_jax() -> None:
    """Raise if JAX cannot be used: double precision has been switched off since `configure`, or JAX had begun when this
    process was forked, and its threads stayed behind."""
    if _FORKED.is_set():
        raise InputError(
            "this process was forked after JAX had begun to compute, and would wait for ever: start workers with "
            "multiprocessing.get_context('spawn')."
        )
    if not jax.config.jax_enable_x64:  # type: ignore[attr-defined]
        raise InputError(
            "JAX's double precision (jax_enable_x64) has been switched off since probsysid was imported; "
            "in single precision results would be wrong: leave it on."
        )


def check_not_traced() -> None:
    """Raise inside of `jax.jit`, where nothing has a value that decisions could be based on."""
    if isinstance(jnp.zeros(()) + 0, jax.core.Tracer):
        raise InputError("this is called inside of jax.jit, where data have no values; call it outside.")


def _llvm_options() -> tuple[str, ...]:
    width = WIDE if "avx512f" in _processor().split() else NARROW
    return LLVM_OPTIONS + width + (X86_OPTIONS if platform.machine() in ("x86_64", "AMD64") else ())


def jit_fused(function: Callable[..., Any]) -> Any:
    """`jax.jit` for the programs that time is spent in: with all options, and each in the one thread of its device."""
    return jax.jit(function, compiler_options={"xla_disable_hlo_passes": SHARING})


def synchronous_dispatch() -> bool:
    """Whether a program for the processor runs in the thread that calls it."""
    return not jax.config.values["jax_cpu_enable_async_dispatch"]


def _dispatch_synchronously() -> None:
    """Turn off asynchronous dispatch, unless JAX has been initialised or the user has chosen."""
    if "JAX_CPU_ENABLE_ASYNC_DISPATCH" in os.environ or _begun():
        return
    jax.config.update("jax_cpu_enable_async_dispatch", False)


def _begun() -> bool:
    """Whether JAX has devices already: their number can be changed before, not after."""
    number = jax.config.values["jax_num_cpu_devices"]
    try:
        jax.config.update("jax_num_cpu_devices", number + 1)
    except RuntimeError:
        return True
    jax.config.update("jax_num_cpu_devices", number)
    return False


def _make_devices() -> None:
    """One per core, unless JAX has been initialised or the user has chosen a number."""
    if "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", ""):
        return
    if jax.config.values.get("jax_num_cpu_devices", -1) > 0 and DEVICES not in os.environ:
        return
    with suppress(RuntimeError):
        jax.config.update("jax_num_cpu_devices", _wanted_devices())


def _keep_programs() -> None:
    """In a folder for this kind of processor: a home folder may be shared with machines of another kind."""
    if jax.config.values.get("jax_compilation_cache_dir"):
        return
    caches = _user_caches()
    if caches is None:
        return
    kind = hashlib.sha256(_processor().encode()).hexdigest()[:12]
    folder = caches / "probsysid" / f"programs-{kind}"
    remove_damaged(folder)
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", SHORTEST_KEPT)


def _user_caches() -> Path | None:
    """The user's cache folder; None for a user without a home, as in some containers."""
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if given.is_absolute():  # relative ones are to be ignored, says the XDG specification
        return given
    try:
        return Path.home() / ".cache"
    except RuntimeError:
        return None


def _processor() -> str:
    """What its machine code depends on."""
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        telling = ("model name", "flags", "Features", "CPU part")
        return "\n".join(sorted({line for line in lines if line.startswith(telling)}))
    return f"{platform.machine()} {platform.processor()}"


def _wanted_devices() -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    given = os.environ.get(DEVICES, str(cores))
    if given.isdecimal() and int(given) > 0:
        return int(given)
    warnings.warn(
        f"the environment variable {DEVICES} is {given!r}, not a whole number above 0; {cores} is taken.", stacklevel=2
    )
    return cores


configure()
