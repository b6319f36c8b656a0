"""How a method reports its results: draws in a file, one line of JSON on standard output."""

import argparse
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

PHASES = ("compile", "warm_up", "run")


class Clock:
    """Seconds by the clock and of the processor, by phase; a phase may be entered again."""

    def __init__(self) -> None:
        self.spent: dict[str, list[float]] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        began, busy = time.perf_counter(), time.process_time()
        yield
        self.add(name, time.perf_counter() - began, time.process_time() - busy)

    def add(self, name: str, seconds: float, processor: float) -> None:
        known = self.spent.setdefault(name, [0.0, 0.0])
        known[0] += seconds
        known[1] += processor

    def figures(self) -> dict[str, dict[str, float]]:
        return {name: {"seconds": s, "processor_seconds": p} for name, (s, p) in self.spent.items()}


def options(**more: Any) -> argparse.Namespace:
    """The options of every method: a file for the draws, and its own integers with defaults."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path, help="where to write the draws, as .npz")
    parser.add_argument("--samples", type=int, default=2000)
    for name, value in more.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    return parser.parse_args()


def hand_over(
    path: Path,
    clock: Clock,
    draws: np.ndarray,
    distributions: Sequence[str],
    *,
    weights: np.ndarray | None = None,
    log_evidence: Sequence[float] | None = None,
    **facts: Any,
) -> None:
    """`draws` of the natural quantities: (run or chain, quantity, draw); `weights` (run, draw) for weighted ones."""
    arrays: Mapping[str, Any] = {"draws": draws} | ({} if weights is None else {"weights": weights})
    np.savez(path, **arrays)
    evidence = None if log_evidence is None else [float(value) for value in log_evidence]
    versions = {name: version(name) for name in distributions}
    print(json.dumps({"phases": clock.figures(), "log_evidence": evidence, "versions": versions, **facts}), flush=True)
