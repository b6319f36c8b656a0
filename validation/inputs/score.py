"""Runs and what is said of them."""

import time as clock
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import probsysid as ps


def run(*arguments: Any, particles: int = 256, **options: Any) -> tuple[ps.Posterior, dict[str, Any]]:
    """A posterior, its steps per sample and its processor time."""
    began = clock.process_time()
    posterior = ps.identify(*arguments, sampler=ps.Sampler(particles=particles), **options)
    trusted = posterior.sampling is not None and posterior.sampling.trusted
    facts = {"steps": posterior.settings.substeps, "seconds": clock.process_time() - began, "trusted": bool(trusted)}
    return posterior, facts


def kept(path: Path, make: Callable[[], ps.Posterior]) -> ps.Posterior:
    """A posterior from its file, or made and written."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        make().save(path)
    return ps.Posterior.load(path)


def input_scores(posterior: ps.Posterior, name: str) -> dict[str, Any]:
    """Normalised mean square error of an unknown input, and the share of samples in its 90 % band, both in percent."""
    found = posterior.inputs(draws=100)
    return {"nmse": found.nmse(name), "coverage": 100 * found.coverage(name)}


def held(posterior: ps.Posterior, truth: Mapping[str, float]) -> dict[str, Any]:
    """Which quantities have the truth in their 90 % interval."""
    inside = {}
    for name, true in truth.items():
        if name in posterior.columns:
            low, high = posterior.quantile(name, [0.05, 0.95])
            inside[name] = bool(low <= true <= high)
    return {"held": inside}
