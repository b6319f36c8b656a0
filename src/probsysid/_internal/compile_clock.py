"""Seconds that JAX has spent on tracing, lowering and compiling, or on reading compiled programs from the cache."""

from functools import cache

import jax

PHASES = (
    "/jax/core/compile/jaxpr_trace_duration",
    "/jax/core/compile/jaxpr_to_mlir_module_duration",
    "/jax/core/compile/backend_compile_duration",
)


@cache
def _total() -> list[float]:
    """One number that a listener of JAX adds to from the first call on."""
    total = [0.0]

    def add(event: str, duration_secs: float, **_: str | int) -> None:
        if event in PHASES:
            total[0] += duration_secs

    jax.monitoring.register_event_duration_secs_listener(add)
    return total


def compile_seconds() -> float:
    """So far, since this was first called; threads that compile at the same time each count."""
    return _total()[0]
