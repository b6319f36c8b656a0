"""Simulation-based calibration (Talts et al. 2018): truths from the prior, data from the truths, posteriors from the
data; the fraction of the posterior below the truth is uniform if model, filter, weights and moves are right.

Besides the parameters, the log likelihood is ranked: it reveals errors that leave the marginals unchanged
(Modrak et al. 2023).
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
from rich.progress import track
from scipy import stats

import probsysid as ps
from probsysid import dist
from probsysid.model.problem import Problem
from validation.duffing import MODEL, SOLVER, measured, multisine
from validation.shared import Shared
from validation.workers import each

SETS = 1280
SAMPLES = 100
BINS = 16
SAMPLER = ps.Sampler(particles=1024, islands=4)

PRIORS = {
    "m": dist.LogNormal(0.0, 0.2),
    "c": dist.LogNormal(np.log(0.2), 0.5),
    "k": dist.LogNormal(0.0, 0.3),
    "k3": dist.LogNormal(np.log(0.5), 0.5),
}
NOISE = {"position": dist.LogNormal(np.log(0.1), 0.5)}
INITIAL = {"x": dist.Uniform(-1.0, 1.0), "dx": dist.Normal(0.0, 0.5)}


def problem() -> Problem:
    return Problem.make(MODEL, PRIORS, NOISE, [INITIAL], None)


def rank_one(shared: Shared, index: int) -> dict[str, Any]:
    """Ranks and z-scores of one truth in the posterior of its data."""
    random = np.random.default_rng([2024, index])
    space = shared.problem.space
    free = np.asarray(space.sample(jax.random.key(10_000 + index), 1))
    truth = {name: float(value[0]) for name, value in space.values(free).items()}
    parameters = {name: truth[name] for name in MODEL.parameter_names}
    start = [truth[f"initial.{name}"] for name in MODEL.physical_names]
    record = measured(multisine(SAMPLES, index), parameters, truth["noise.position"], np.array(start), random)
    target = shared.experiment(record)
    run, history = shared.run(target, seed=index)
    weights = run.normalised_weights
    values = {name: np.asarray(v) for name, v in space.values(run.flat_theta).items()}
    ranks = {name: float(weights @ (v < truth[name])) for name, v in values.items()}
    _, likelihood, energy = target.sweep(np.repeat(free, shared.sampler.particles, axis=1), SAMPLES)
    ranks["log likelihood"] = float(weights @ (run.log_likelihood.ravel() < (likelihood - energy)[0]))
    means = {name: float(weights @ v) for name, v in values.items()}
    sds = {name: float(np.sqrt(weights @ (v - means[name]) ** 2)) for name, v in values.items()}
    return {
        "truth": truth,
        "ranks": ranks,
        "z": {name: (means[name] - truth[name]) / sds[name] for name in values},
        "ess": float(1 / np.sum(weights**2)),
        "acceptance": float(np.mean([r.acceptance for r in history.rejuvenations])),
        "sweeps": run.work / run.normalised_weights.size / SAMPLES,
        "lost": run.lost,
    }


@cache
def _shared() -> Shared:
    return Shared(problem(), SOLVER, SAMPLER)


def rank_index(index: int) -> dict[str, Any]:
    """`rank_one` with the programs of this process."""
    return rank_one(_shared(), index)


def run(folder: Path, sets: int = SETS, cluster: ps.Cluster | None = None) -> dict[str, Any]:
    """Run all data sets without a result in the folder, and summarise."""
    folder = folder / "calibration"
    folder.mkdir(parents=True, exist_ok=True)
    missing = [index for index in range(sets) if not (folder / f"{index:04d}.json").exists()]
    results = each(rank_index, [(index,) for index in missing], cluster)
    for place, result in track(results, description="calibration", total=len(missing)):
        path = folder / f"{missing[place]:04d}.json"
        path.with_suffix(".partial").write_text(json.dumps(result))
        path.with_suffix(".partial").rename(path)
    return summary([json.loads((folder / f"{index:04d}.json").read_text()) for index in range(sets)])


def summary(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Chi-square and Kolmogorov-Smirnov tests of the ranks of every quantity."""
    ranks = {name: np.array([r["ranks"][name] for r in results]) for name in results[0]["ranks"]}
    counts = {name: np.histogram(r, bins=BINS, range=(0, 1))[0] for name, r in ranks.items()}
    return {
        "sets": len(results),
        "counts": {name: c.tolist() for name, c in counts.items()},
        "ranks": {name: r.tolist() for name, r in ranks.items()},
        "chi-square": {name: float(stats.chisquare(c).pvalue) for name, c in counts.items()},
        "Kolmogorov-Smirnov": {name: float(stats.kstest(r, "uniform").pvalue) for name, r in ranks.items()},
        "rms z": {n: float(np.sqrt(np.mean([r["z"][n] ** 2 for r in results]))) for n in results[0]["z"]},
        "acceptance": float(np.mean([r["acceptance"] for r in results])),
        "sweeps": float(np.mean([r["sweeps"] for r in results])),
        "lost": int(np.sum([r["lost"] for r in results])),
    }


def plot(result: dict[str, Any], path: Path) -> None:
    """Rank histograms with the 99 % band of the count of one bin."""
    from matplotlib import pyplot

    names, sets = list(result["counts"]), result["sets"]
    low, high = stats.binom.ppf([0.005, 0.995], sets, 1 / BINS)
    figure, axes = pyplot.subplots(2, 4, figsize=(11, 4.6), sharex=True, sharey=True, layout="constrained")
    for name, axis in zip(names, axes.flat, strict=False):
        axis.axhspan(low, high, color="0.85", lw=0)
        axis.axhline(sets / BINS, color="0.5", lw=0.8)
        axis.bar((np.arange(BINS) + 0.5) / BINS, result["counts"][name], width=0.9 / BINS, color="C0", alpha=0.7)
        axis.set_title(f"{name}  (p = {result['chi-square'][name]:.2f})", fontsize="medium")
    figure.supxlabel("share of the posterior below the truth", fontsize="medium")
    figure.supylabel("data sets", fontsize="medium")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
