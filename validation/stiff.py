"""Stiff reactions: are they identified honestly, and what does it cost beside LSODA?

    python -m validation.stiff [--only NAME | --page]

Robertson's reaction (rates 0.04, 3e7 and 1e4) with samples on a logarithmic grid, and an enzyme whose complex forms a
hundred times faster than it is sampled.  `identify` with its defaults; then the log likelihood of 200 of its draws with
LSODA at tight tolerances, whose importance weights say how far each mean and spread would move.  Writes
docs/validation-stiff.md.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

import probsysid as ps
from probsysid import dist
from probsysid.posterior.diagnostics.solver_check import compare
from probsysid.posterior.diagnostics.variance_decomposition import log_likelihood
from probsysid.posterior.draws import draw_indices

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "validation-stiff.md"
RESULTS = Path(__file__).parent / "results" / "stiff.json"

DRAWS = 200
"""Of the posterior, whose log likelihood is computed with LSODA."""

NOISE, SPREAD, OFF = 0.02, 0.3, 1.1
"""Sd of all outputs, spread of the log-normal priors, and factor of their medians on the true constants."""

RELATIVE, ABSOLUTE = 1e-7, 1e-11
"""Tolerances of LSODA."""


@dataclass(frozen=True)
class Reaction:
    """A reaction as a model, and as LSODA takes it."""

    name: str
    model: ps.Model
    truth: Mapping[str, float]
    start: tuple[float, ...]
    times: np.ndarray
    rates: Callable[..., list[float]]
    jacobian: Callable[..., list[list[float]]]
    scales: tuple[float, ...]
    """Factor of each component in the output of its name."""

    def solved(self, constants: Mapping[str, float]) -> dict[str, np.ndarray]:
        """Outputs at all samples, by LSODA."""
        found = solve_ivp(
            self.rates,
            (self.times[0], self.times[-1]),
            self.start,
            "LSODA",
            self.times,
            args=tuple(constants[name] for name in self.truth),
            rtol=RELATIVE,
            atol=ABSOLUTE,
            jac=self.jacobian,
        )
        assert found.success, found.message
        return dict(zip(self.model.output_names, np.array(self.scales)[:, None] * found.y, strict=True))

    def record(self, seed: int) -> ps.Record:
        random = np.random.default_rng([51, seed])
        clean = self.solved(self.truth)
        noisy = {name: y + NOISE * random.standard_normal(len(y)) for name, y in clean.items()}
        return ps.Record(time=self.times, outputs=noisy)


robertson = Reaction(
    "Robertson",
    ps.Model(
        {"a": 1, "b": 1, "c": 1},
        lambda s, u, p: {
            "a": -p.k1 * s.a + p.k3 * s.b * s.c,
            "b": p.k1 * s.a - p.k3 * s.b * s.c - p.k2 * s.b**2,
            "c": p.k2 * s.b**2,
        },
        lambda s, u, p: {"reactant": s.a, "intermediate": 1e4 * s.b, "product": s.c},
        name="Robertson's reaction",
    ),
    {"k1": 0.04, "k2": 3e7, "k3": 1e4},
    (1.0, 0.0, 0.0),
    np.concatenate([[0.0], np.geomspace(1e-2, 1e4, 25)]),
    lambda t, y, k1, k2, k3: [
        -k1 * y[0] + k3 * y[1] * y[2],
        k1 * y[0] - k3 * y[1] * y[2] - k2 * y[1] ** 2,
        k2 * y[1] ** 2,
    ],
    lambda t, y, k1, k2, k3: [
        [-k1, k3 * y[2], k3 * y[1]],
        [k1, -k3 * y[2] - 2 * k2 * y[1], -k3 * y[1]],
        [0, 2 * k2 * y[1], 0],
    ],
    (1.0, 1e4, 1.0),
)

TOTAL = 0.1
"""Of the enzyme, free and bound."""

enzyme = Reaction(
    "enzyme",
    ps.Model(
        {"s": 1, "c": 1},
        lambda s, u, p: {
            "s": -p.k1 * (TOTAL - s.c) * s.s + p.km * s.c,
            "c": p.k1 * (TOTAL - s.c) * s.s - (p.km + p.kc) * s.c,
        },
        lambda s, u, p: {"substrate": s.s, "complex": 10 * s.c},
        name="enzyme with a fast complex",
    ),
    {"k1": 1000.0, "km": 300.0, "kc": 5.0},
    (1.0, 0.0),
    np.linspace(0.0, 5.0, 26),
    lambda t, y, k1, km, kc: [
        -k1 * (TOTAL - y[1]) * y[0] + km * y[1],
        k1 * (TOTAL - y[1]) * y[0] - (km + kc) * y[1],
    ],
    lambda t, y, k1, km, kc: [
        [-k1 * (TOTAL - y[1]), k1 * y[0] + km],
        [k1 * (TOTAL - y[1]), -k1 * y[0] - km - kc],
    ],
    (1.0, 10.0),
)

REACTIONS = {reaction.name: reaction for reaction in (enzyme, robertson)}


def measure(reaction: Reaction, seed: int = 0) -> dict[str, Any]:
    """A default run, and its draws by LSODA."""
    record = reaction.record(seed)
    priors = {name: dist.LogNormal(np.log(OFF * value), SPREAD) for name, value in reaction.truth.items()}
    initial = dict(zip(reaction.model.physical_names, reaction.start, strict=True))
    noise = dict.fromkeys(reaction.model.output_names, NOISE)
    began = time.process_time()
    try:
        posterior = ps.identify(reaction.model, record, priors, noise, initial)
    except ps.SamplingError as error:
        return {"seconds": time.process_time() - began, "error": str(error)}
    seconds = time.process_time() - began
    chosen = draw_indices(posterior.weights, DRAWS)
    draws = {name: np.asarray(posterior.values[name])[chosen] for name in reaction.truth}
    began = time.process_time()
    exact = [_log_likelihood(reaction, record, {n: float(v[k]) for n, v in draws.items()}) for k in range(DRAWS)]
    lsoda = (time.process_time() - began) / DRAWS
    setup = posterior.setup
    own = log_likelihood(setup.problem, setup.solver, posterior.records, posterior.theta[:, chosen], ps.Threads(1))
    found = compare(np.full(DRAWS, 1 / DRAWS), np.array(exact) - own, draws, setup.solver.steps, 0)
    return {
        "seconds": seconds,
        "steps": setup.solver.steps,
        "trusted": bool(posterior.sampling.trusted),
        "sampling": posterior.sampling_verdict,
        "integration": posterior.verdict,
        "adequate": posterior.check.adequate,
        "sweeps": posterior.settings.sweeps,
        "evaluations": posterior.settings.sweeps * len(posterior.weights),
        "lsoda_seconds": lsoda,
        "table": _table(posterior, draws),
        "shift": found.shift,
        "spread": found.spread,
        "loss": found.loss,
    }


def _table(posterior: ps.Posterior, names: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """Means and standard deviations."""
    found = {}
    for name in names:
        values = np.asarray(posterior.values[name])
        mean = float(posterior.weights @ values)
        found[name] = mean, float(np.sqrt(posterior.weights @ (values - mean) ** 2))
    return found


def _log_likelihood(reaction: Reaction, record: ps.Record, constants: Mapping[str, float]) -> float:
    outputs = reaction.solved(constants)
    return sum(
        float(-0.5 * np.sum(((record.outputs[name] - y) / NOISE) ** 2) - len(y) * np.log(NOISE * np.sqrt(2 * np.pi)))
        for name, y in outputs.items()
    )


INTRODUCTION = f"""\
# Validation: stiff reactions

Made by `python -m validation.stiff`.

Robertson's reaction, rates 0.04, 3e7 and 1e4, with 26 samples on a logarithmic grid up to 10000, and an enzyme whose
complex forms within milliseconds, with 26 samples 0.2 apart. All constants are unknown, with log-normal priors of
spread {SPREAD} around {OFF} times the truth; noise of {NOISE} on all components. One data set each, `identify` with its
defaults. {DRAWS} of the draws are then evaluated by LSODA (SciPy, relative tolerance {RELATIVE:g}, with the Jacobian),
and importance weights say how far means and standard deviations would move with its likelihood: in posterior standard
deviations, and as a ratio."""

HEAD = """\
| quantity | truth | mean | sd | mean by LSODA moves by, sd | ratio of sd |
| --- | --- | --- | --- | --- | --- |"""


def page(results: Mapping[str, Any]) -> str:
    return "\n\n".join([INTRODUCTION, *(section(name, own) for name, own in results.items())]) + "\n"


def section(name: str, own: Mapping[str, Any]) -> str:
    if "error" in own:
        return (
            f"## {name}\n\n**Not identified**, and said so: the run ended after {own['seconds']:.0f} s of processor "
            f"time with an error: {own['error']}"
        )
    rows = [
        f"| {quantity} | {REACTIONS[name].truth[quantity]:g} | {mean:.4g} | {sd:.2g} | "
        f"{own['shift'][quantity]:+.2f} | {own['spread'][quantity]:.2f} |"
        for quantity, (mean, sd) in own["table"].items()
    ]
    cost = (
        f"{own['seconds']:.0f} s of processor time, compiling included, for the likelihoods of "
        f"{own['evaluations']:.0f} particles over the whole record. LSODA takes {1e3 * own['lsoda_seconds']:.1f} ms "
        f"each in SciPy, {own['evaluations'] * own['lsoda_seconds']:.0f} s for as many. Weights by LSODA cost "
        f"{100 * own['loss']:.1f} % of the effective sample size."
    )
    verdicts = "\n".join(f"- {own[kind][:1].upper()}{own[kind][1:]}" for kind in ("integration", "sampling"))
    return "\n\n".join([f"## {name}", "\n".join([HEAD, *rows]), verdicts, cost])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=REACTIONS)
    parser.add_argument("--page", action="store_true", help="only write the page, from earlier results")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    RESULTS.parent.mkdir(exist_ok=True)
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in [] if options.page else [options.only] if options.only else REACTIONS:
        results[name] = measure(REACTIONS[name])
        print(name, json.dumps(results[name], indent=2), flush=True)
        RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    PAGE.write_text(page({name: results[name] for name in REACTIONS if name in results}))


if __name__ == "__main__":
    main()
