"""Process-wide settings that probsysid needs from JAX, made once at import.

Double precision is not optional: a filter over thousands of samples in single precision is garbage.

The options for XLA's CPU compiler let it turn the filter's time loop into one vectorised machine-code function; they
are worth a factor of 4 to 9 (docs/decisions.md).  They only take effect when JAX has not run anything yet; later they
are harmless.
"""

import os
from importlib.metadata import version

import jax

LOOP_BYTES = 4_000_000
"""Loops that touch less memory than this are compiled whole; a block of particles is far smaller."""

XLA_OPTIONS = (
    f"xla_cpu_small_while_loop_byte_threshold={LOOP_BYTES}",
    "xla_cpu_use_multi_output_fusion=true",
)
"""Options that an XLA version does not know are ignored by it: they travel in a free-form map."""

LLVM_OPTIONS = (
    "-runtime-memory-check-threshold=1000",
    "-vectorize-memory-check-threshold=2000",
    "-memory-check-merge-threshold=1000",
    "-force-vector-width=4",
    "-force-vector-interleave=1",
)
"""Without them LLVM gives up on vectorising loops over as many arrays as a filter step has."""

LLVM_TESTED = ("0.10.",)
"""Versions of jaxlib for which the options above were tried: LLVM ends the process at an option it does not know."""


def configure() -> None:
    """Turn on double precision and ask XLA for whole-loop compilation on the CPU."""
    jax.config.update("jax_enable_x64", True)
    flags = os.environ.get("XLA_FLAGS", "")
    if "xla_backend_extra_options" in flags:
        return
    options = XLA_OPTIONS + (LLVM_OPTIONS if version("jaxlib").startswith(LLVM_TESTED) else ())
    os.environ["XLA_FLAGS"] = f"{flags} --xla_backend_extra_options={','.join(options)}".strip()
