"""`python -m validation.sampling_attacks [SEEDS]`: can `identify` be made to be wrong without saying so?

Systems with closed solutions and one to three unknowns, so that quadrature knows means, standard deviations and the
evidence: aliases, signs and labels that nobody can know, outliers, hardly any data, far too wide priors, narrow targets
in them.  All defaults but the number of particles, small ones above all.  Writes its part of the page; results are
kept in validation/results, so that an interrupted study goes on where it stopped.
"""

import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import jax.numpy as jnp
import numpy as np

import probsysid as ps
from validation.kept import Kept
from validation.quadrature import Answer, integrate
from validation.sampling_page import ATTACKS as PART
from validation.sampling_page import table, write_part

dist = ps.dist
PARTICLES = (64, 1024)

LARGE = 0.5
"""Error of a mean in standard deviations, and of a log standard deviation, that makes a run bad."""

Axis = np.ndarray
Density = Callable[..., np.ndarray]


@dataclass(frozen=True, eq=False)
class Attack:
    """A system, its data, and its posterior's log density in the coordinates in which it is scored."""

    name: str
    model: ps.Model
    record: ps.Record
    priors: Mapping[str, Any]
    noise: Any
    initial: Mapping[str, Any]
    scored: Mapping[str, Callable[[ps.Posterior], np.ndarray]]
    """Coordinates, from the posterior's particles."""
    ranges: Sequence[tuple[float, float]]
    """Where the coordinates are integrated."""
    log_joint: Density
    """Log prior plus log likelihood, as a density in those coordinates."""

    @cached_property
    def exact(self) -> Answer:
        """Means, standard deviations, log evidence."""
        return integrate(self.log_joint, self.ranges)


def normal(value: np.ndarray, mean: Any, sd: Any) -> np.ndarray:
    return -0.5 * ((value - mean) / sd) ** 2 - np.log(sd) - 0.5 * np.log(2 * np.pi)


def plain(name: str) -> Callable[[ps.Posterior], np.ndarray]:
    return lambda posterior: posterior.columns[name]


def log(name: str) -> Callable[[ps.Posterior], np.ndarray]:
    return lambda posterior: np.log(posterior.columns[name])


def _fit(outputs: np.ndarray, expected: Callable[[int], np.ndarray], sd: Any) -> np.ndarray:
    """Log likelihood, sample by sample so that grids fit into memory."""
    total: Any = 0.0
    for k, value in enumerate(outputs):
        total = total + normal(value, expected(k), sd)
    return np.asarray(total)


OSCILLATOR = ps.Model({"x": 2}, lambda s, u, p: {"x": -(p.w**2) * s.x})


def _wave(seed: int, samples: int, dt: float, w: float, noise: float) -> tuple[np.ndarray, ps.Record]:
    random = np.random.default_rng([51, seed])
    t = dt * np.arange(samples)
    return t, ps.Record({}, {"x": np.cos(w * t) + noise * random.standard_normal(samples)}, dt=dt)


def aliases() -> Attack:
    """Four frequencies that no sample tells apart: a quarter each."""
    t, record = _wave(1, 40, 1.0, 2.0, 0.1)
    y = record.outputs["x"]
    joint = lambda w: _fit(y, lambda k: np.cos(w * t[k]), 0.1) - np.log(11.5)  # noqa: E731
    prior = {"w": dist.Uniform(0.5, 12.0)}
    return Attack(
        "four aliases of a frequency", OSCILLATOR, record, prior, {"x": 0.1}, {"x": 1.0, "dx": 0.0},
        {"w": plain("w")}, [(0.5, 12.0)], joint,
    )  # fmt: skip


def narrow_frequency() -> Attack:
    """A frequency in a prior of three hundred times the width of the peak, with much noise."""
    t, record = _wave(2, 400, 0.1, 7.3, 1.0)
    y = record.outputs["x"]
    joint = lambda w: _fit(y, lambda k: np.cos(w * t[k]), 1.0) - np.log(29.9)  # noqa: E731
    prior = {"w": dist.Uniform(0.1, 30.0)}
    return Attack(
        "one narrow frequency", OSCILLATOR, record, prior, {"x": 1.0}, {"x": 1.0, "dx": 0.0},
        {"w": plain("w")}, [(0.1, 30.0)], joint,
    )  # fmt: skip


def weak_frequency() -> Attack:
    """More noise than signal, few samples: many frequencies are possible."""
    t, record = _wave(3, 30, 0.5, 3.0, 1.5)
    y = record.outputs["x"]
    joint = lambda w: _fit(y, lambda k: np.cos(w * t[k]), 1.5) - np.log(5.9)  # noqa: E731
    prior = {"w": dist.Uniform(0.1, 6.0)}
    return Attack(
        "frequency under noise", OSCILLATOR, record, prior, {"x": 1.5}, {"x": 1.0, "dx": 0.0},
        {"w": plain("w")}, [(0.1, 6.0)], joint,
    )  # fmt: skip


def labels() -> Attack:
    """The sum of two decays: which is which nobody knows."""
    model = ps.Model(
        {"x": 1, "z": 1}, lambda s, u, p: {"x": -p.a * s.x, "z": -p.b * s.z}, lambda s, u, p: {"y": s.x + s.z}
    )
    t, random = 0.1 * np.arange(60), np.random.default_rng(52)
    y = np.exp(-0.4 * t) + np.exp(-3.0 * t) + 0.03 * random.standard_normal(60)
    joint = lambda a, b: (  # noqa: E731
        _fit(y, lambda k: np.exp(-np.exp(a) * t[k]) + np.exp(-np.exp(b) * t[k]), 0.03)
        + normal(a, 0, 1.5) + normal(b, 0, 1.5)
    )  # fmt: skip
    prior = {"a": dist.LogNormal(0.0, 1.5), "b": dist.LogNormal(0.0, 1.5)}
    return Attack(
        "two decays, labels", model, ps.Record({}, {"y": y}, dt=0.1), prior, {"y": 0.03}, {"x": 1.0, "z": 1.0},
        {"a": log("a"), "b": log("b")}, [(-5.0, 5.0), (-5.0, 5.0)], joint,
    )  # fmt: skip


def _step_response(seed: int, samples: int, dt: float, noise: float, gain: float = 1.0, rate: float = 0.8) -> Any:
    random = np.random.default_rng([53, seed])
    t = dt * np.arange(samples)
    y = gain * (1 - np.exp(-rate * t)) + noise * random.standard_normal(samples)
    return t, ps.Record({"u": np.ones(samples)}, {"x": y}, dt=dt)


def unequal_signs() -> Attack:
    """A gain b^2 whose sign only the prior knows a little of."""
    model = ps.Model({"x": 1}, lambda s, u, p: {"x": p.a * (p.b**2 * u.u - s.x)})
    t, record = _step_response(1, 80, 0.1, 0.02, gain=2.25)
    y = record.outputs["x"]
    joint = lambda a, b: (  # noqa: E731
        _fit(y, lambda k: b**2 * (1 - np.exp(-np.exp(a) * t[k])), 0.02) + normal(a, 0, 1) + normal(b, 1.0, 1.5)
    )
    prior = {"a": dist.LogNormal(0.0, 1.0), "b": dist.Normal(1.0, 1.5)}
    return Attack(
        "gain b^2, unequal signs", model, record, prior, {"x": 0.02}, {"x": 0.0},
        {"a": log("a"), "b": plain("b")}, [(-4.0, 4.0), (-6.0, 8.0)], joint,
    )  # fmt: skip


FIRST_ORDER = ps.Model({"x": 1}, lambda s, u, p: {"x": p.a * (p.K * u.u - s.x)})


def _first_order(name: str, record: ps.Record, t: np.ndarray, width: float, noise: float) -> Attack:
    y = record.outputs["x"]
    joint = lambda a, b: (  # noqa: E731
        _fit(y, lambda k: np.exp(b) * (1 - np.exp(-np.exp(a) * t[k])), noise)
        + normal(a, 0, width) + normal(b, 0, width)
    )  # fmt: skip
    prior = {"a": dist.LogNormal(0.0, width), "K": dist.LogNormal(0.0, width)}
    return Attack(
        name, FIRST_ORDER, record, prior, {"x": noise}, {"x": 0.0},
        {"a": log("a"), "K": log("K")}, [(-6 * width, 6 * width)] * 2, joint,
    )  # fmt: skip


def vague() -> Attack:
    """Priors over eight decades, noise of a thousandth."""
    t, record = _step_response(2, 300, 0.02, 1e-3)
    return _first_order("priors over eight decades, noise 0.001", record, t, 4.0, 1e-3)


def outliers() -> Attack:
    """Three outliers of fifty standard deviations; the noise level is given."""
    t, record = _step_response(3, 60, 0.1, 0.02)
    y = np.array(record.outputs["x"])
    y[[10, 25, 40]] += [1.0, 1.0, -0.8]
    return _first_order("three outliers", record.replace(outputs={"x": y}), t, 1.0, 0.02)


def slow() -> Attack:
    """A record so short that only a K is known: a ridge over many decades."""
    t, record = _step_response(4, 40, 0.002, 1e-3)
    return _first_order("only the initial slope", record, t, 2.0, 1e-3)


def few_samples() -> Attack:
    """Four samples, unknown noise: a funnel."""
    t, record = _step_response(5, 4, 0.8, 0.05)
    y = record.outputs["x"]
    joint = lambda a, b, c: (  # noqa: E731
        _fit(y[1:], lambda k: np.exp(b) * (1 - np.exp(-np.exp(a) * t[k + 1])), np.exp(c))
        + normal(y[0], 0.0, np.exp(c)) + normal(a, 0, 1) + normal(b, 0, 1) + normal(c, -3, 2)
    )  # fmt: skip
    prior = {"a": dist.LogNormal(0.0, 1.0), "K": dist.LogNormal(0.0, 1.0)}
    return Attack(
        "four samples, unknown noise", FIRST_ORDER, record, prior, {"x": dist.LogNormal(-3.0, 2.0)}, {"x": 0.0},
        {"a": log("a"), "K": log("K"), "noise": log("noise.x")}, [(-6, 6), (-6, 6), (-13, 6)], joint,
    )  # fmt: skip


def squared_output() -> Attack:
    """x^2 is measured: the sign of x at the start is unknown, and the prior prefers one."""
    model = ps.Model({"x": 1}, lambda s, u, p: {"x": -p.a * s.x}, lambda s, u, p: {"y": s.x**2})
    t, random = 0.1 * np.arange(40), np.random.default_rng(54)
    y = (1.5 * np.exp(-0.7 * t)) ** 2 + 0.02 * random.standard_normal(40)
    joint = lambda a, b: (  # noqa: E731
        _fit(y, lambda k: (b * np.exp(-np.exp(a) * t[k])) ** 2, 0.02) + normal(a, 0, 1) + normal(b, 0.3, 1.0)
    )
    return Attack(
        "squared output", model, ps.Record({}, {"y": y}, dt=0.1), {"a": dist.LogNormal(0.0, 1.0)}, {"y": 0.02},
        {"x": dist.Normal(0.3, 1.0)}, {"a": log("a"), "x0": plain("initial.x")}, [(-4, 4), (-5, 5)], joint,
    )  # fmt: skip


def needle() -> Attack:
    """The output follows the input only for b within a two-hundredth of its prior; otherwise all is noise."""
    model = ps.Model({"x": 1}, lambda s, u, p: {"x": 2.0 * jnp.exp(-(((p.b - 70) / 0.5) ** 2)) * u.u - s.x})
    t, random = 0.1 * np.arange(60), np.random.default_rng(55)
    y = 1.5 * (1 - np.exp(-t)) + 0.3 * random.standard_normal(60)
    record = ps.Record({"u": np.ones(60)}, {"x": y}, dt=0.1)

    def joint(b: np.ndarray, c: np.ndarray) -> np.ndarray:
        gain = 2.0 * np.exp(-(((b - 70) / 0.5) ** 2))
        fit = _fit(y, lambda k: gain * (1 - np.exp(-t[k])), np.exp(c))
        return fit - np.log(100.0) + normal(c, 0.0, 1.0)

    prior = {"b": dist.Uniform(0.0, 100.0)}
    return Attack(
        "a needle in the prior", model, record, prior, {"x": dist.LogNormal(0.0, 1.0)}, {"x": 0.0},
        {"b": plain("b"), "noise": log("noise.x")}, [(0.0, 100.0), (-4.0, 4.0)], joint,
    )  # fmt: skip


ATTACKS = (
    aliases, narrow_frequency, weak_frequency, labels, unequal_signs, vague, outliers, slow, few_samples,
    squared_output, needle,
)  # fmt: skip


def run(attack: Attack, particles: int, seed: int) -> dict[str, Any]:
    """One run against quadrature, as plain data."""
    began = time.process_time()
    try:
        posterior = ps.identify(
            attack.model, attack.record, attack.priors, attack.noise, attack.initial,
            sampler=ps.Sampler(particles=particles), seed=seed,
        )  # fmt: skip
    except ps.SamplingError as error:
        return {"status": "failed", "words": str(error), "seconds": time.process_time() - began}
    exact, weights = attack.exact, posterior.weights
    values = np.stack([score(posterior) for score in attack.scored.values()])
    mean = values @ weights
    sd = np.sqrt((values - mean[:, None]) ** 2 @ weights)
    ratios = sd / exact.sd
    integration = getattr(posterior, "check", None)
    return {
        "status": posterior.sampling.status,
        "words": posterior.sampling_verdict,
        "integration": None if integration is None else bool(integration.adequate),
        "mean_error": float(np.max(np.abs(mean - exact.mean) / exact.sd)),
        "sd_ratio": float(ratios[np.argmax(np.abs(np.log(np.maximum(ratios, 1e-12))))]),
        "evidence_error": posterior.log_evidence - exact.log_evidence,
        "evidence_reported": posterior.log_evidence_error,
        "seconds": time.process_time() - began,
    }


def is_bad(found: Mapping[str, Any]) -> bool:
    """Whether a result is really wrong."""
    off = (found["mean_error"], abs(np.log(max(found["sd_ratio"], 1e-12))), 0.5 * abs(found["evidence_error"]))
    return bool(max(off) > LARGE)


TEXT = """
Written by `python -m validation.sampling_attacks {seeds}`: `identify` with all defaults but the number of particles, on
systems whose posterior quadrature knows, {seeds} seeds each. *Silent* runs are bad, as above, and trusted all the same:
what must not be. Runs that ended with an error say so, and count as not trusted.

"""


def row(name: str, particles: int, runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    done = [run for run in runs if run["status"] != "failed"]
    bad = [run for run in done if is_bad(run)]
    return {
        "attack": name,
        "particles": particles,
        "runs": len(runs),
        "not trusted": sum(run["status"] != "trusted" for run in runs),
        "bad": len(bad) + len(runs) - len(done),
        "silent": sum(run["status"] == "trusted" for run in bad),
        "CPU s": f"{np.median([run['seconds'] for run in runs]):.1f}",
    }


def main(seeds: int = 10, *names: str) -> None:
    """Run some of the attacks, by default all, and write those that there are."""
    warnings.simplefilter("ignore")
    kept, rows = Kept("attacks"), []
    for make in ATTACKS:
        attack = make()
        for particles in PARTICLES:
            keys = {f"{make.__name__}-{particles}-{seed}": seed for seed in range(seeds)}
            if names and make.__name__ not in names and not kept.has(keys):
                continue
            runs = [kept.get(key, partial(run, attack, particles, seed)) for key, seed in keys.items()]
            rows.append(row(attack.name, particles, runs))
            print(rows[-1], flush=True)
    write_part(PART, TEXT.format(seeds=seeds) + table(rows))


if __name__ == "__main__":
    main(*(int(word) if word.isdigit() else word for word in sys.argv[1:]))
