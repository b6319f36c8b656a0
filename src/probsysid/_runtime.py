"""Process-wide settings that probsysid needs from JAX, made once at import.

Double precision is not optional: a filter over thousands of samples in single precision is garbage.

The two XLA options let the CPU compiler turn the filter's time loop into one machine-code function instead of
about a hundred small ones called one after another; they are measured to be worth a factor of 2 to 4
(docs/decisions.md).  They only take effect when JAX has not run anything yet; later they are harmless.
"""

import os

import jax

LOOP_BYTES = 4_000_000
"""Loops that touch less memory than this are compiled whole; a block of particles is far smaller."""

CPU_OPTIONS = {
    "xla_cpu_small_while_loop_byte_threshold": str(LOOP_BYTES),
    "xla_cpu_use_multi_output_fusion": "true",
}
"""Keys that an XLA version does not know are ignored by it: they travel in a free-form map."""


def configure() -> None:
    """Turn on double precision and ask XLA for whole-loop compilation on the CPU."""
    jax.config.update("jax_enable_x64", True)
    flags = os.environ.get("XLA_FLAGS", "")
    if "xla_backend_extra_options" not in flags:
        options = ",".join(f"{key}={value}" for key, value in CPU_OPTIONS.items())
        os.environ["XLA_FLAGS"] = f"{flags} --xla_backend_extra_options={options}".strip()
