"""Posteriors of a parameter that varies between records, by brute force.

A decay x' = -x from 1 is measured as y = k_r x with known noise, so each record knows its k_r with a Gaussian
likelihood.  The common value, the spread and each k_r are integrated on grids, with scipy's densities; where all but
the spread is Gaussian, the spread alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats
from scipy.integrate import simpson

import probsysid as ps

NOISE, DT, SAMPLES = 0.4, 0.1, 20

MODEL = ps.Model(
    {"x": 1}, lambda s, u, p: {"x": -s.x}, lambda s, u, p: {"y": p.k * s.x}, name="decay", units={"k": "V/m"}
)
START = {"x": 1.0}
SHAPE = np.exp(-DT * np.arange(SAMPLES))


def records(values: Sequence[float], seed: int, noise: float = NOISE) -> list[ps.Record]:
    random = np.random.default_rng(seed)
    return [ps.Record(outputs={"y": k * SHAPE + noise * random.standard_normal(SAMPLES)}, dt=DT) for k in values]


def log_likelihood(record: ps.Record, k: np.ndarray, noise: float = NOISE) -> np.ndarray:
    residual = np.asarray(record.outputs["y"]) - k[..., None] * SHAPE
    return np.sum(stats.norm.logpdf(residual, scale=noise), axis=-1)


@dataclass(frozen=True)
class Exact:
    log_evidence: float
    mean: dict[str, float]
    sd: dict[str, float]
    new_mean: float
    new_sd: float
    """Of k on one more record."""


def conjugate(
    data: Sequence[ps.Record], mean: float, sd: float, spread_prior: Callable[[np.ndarray], np.ndarray]
) -> Exact:
    """With k ~ Normal(mean, sd) and an absolute spread: Gaussian given the spread, which is integrated over."""
    count, spreads = len(data), np.linspace(0, 6, 1201)
    precision = SHAPE @ SHAPE / NOISE**2
    estimates = np.array([SHAPE @ np.asarray(record.outputs["y"]) / (SHAPE @ SHAPE) for record in data])
    peaks = [float(log_likelihood(r, np.asarray(k))) for r, k in zip(data, estimates, strict=True)]
    constant = sum(peaks) + 0.5 * count * np.log(2 * np.pi / precision)
    pick = np.eye(count + 2)[1 : count + 1]  # of (k, k_0, ..., k of one more record) what is measured
    densities, means, covariances = [], [], []
    for spread in spreads:
        prior = sd**2 + spread**2 * np.diag([0.0, *[1.0] * (count + 1)])
        innovation = pick @ prior @ pick.T + np.eye(count) / precision
        gain = np.linalg.solve(innovation, pick @ prior).T
        densities.append(stats.multivariate_normal.pdf(estimates, np.full(count, mean), innovation))
        means.append(mean + gain @ (estimates - mean))
        covariances.append(prior - gain @ pick @ prior)
    weights = spread_prior(spreads) * np.array(densities)
    evidence = simpson(weights, x=spreads)

    def expected(values: np.ndarray) -> np.ndarray:
        return simpson(weights[:, None] * values, x=spreads, axis=0) / evidence

    first = expected(np.array(means))
    second = expected(np.array(means) ** 2 + np.array([np.diag(c) for c in covariances]))
    sds = np.sqrt(second - first**2)
    names = ["k", *(f"k[{r}]" for r in range(count))]
    spread_mean, spread_square = (float(expected(spreads[:, None] ** n)[0]) for n in (1, 2))
    return Exact(
        float(np.log(evidence) + constant),
        {**dict(zip(names, first[:-1].tolist(), strict=True)), "k.spread": spread_mean},
        {
            **dict(zip(names, sds[:-1].tolist(), strict=True)),
            "k.spread": float(np.sqrt(spread_square - spread_mean**2)),
        },
        float(first[-1]),
        float(sds[-1]),
    )


def by_quadrature(
    data: Sequence[ps.Record],
    common: np.ndarray,
    prior: Callable[[np.ndarray], np.ndarray],
    spread: np.ndarray,
    spread_prior: Callable[[np.ndarray], np.ndarray],
    own: np.ndarray,
    density: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray],
) -> Exact:
    """On grids of the common value, the spread and a record's own value; `density(own, common, spread)`."""
    likelihoods = [np.ones_like(own), *(np.exp(log_likelihood(record, own)) for record in data)]
    # Simpson's rule as weights of the points, so that all integrals over a record's own value are one product
    features = simpson(np.eye(len(own)), x=own) * np.array([each * own**n for each in likelihoods for n in range(3)])
    integrals = np.array([density(own, value, spread[:, None]) @ features.T for value in common])
    moments, *of_records = np.moveaxis(integrals, -1, 0).reshape(len(likelihoods), 3, len(common), len(spread))
    assert np.allclose(moments[0], 1, atol=2e-4)  # the grid is fine and wide enough
    parts = [record[0] for record in of_records]
    joint = prior(common)[:, None] * spread_prior(spread)[None, :] * np.prod(parts, axis=0)

    def total(values: np.ndarray) -> float:
        return float(simpson(simpson(joint * values, x=spread), x=common))

    evidence = total(np.ones_like(joint))
    grids = {"k": common[:, None], "k.spread": spread[None, :]}
    found = {name: [total(value**n) / evidence for n in (1, 2)] for name, value in grids.items()}
    for r, (part, *others) in enumerate(of_records):
        found[f"k[{r}]"] = [total(each / np.maximum(part, 1e-300)) / evidence for each in others]
    new = [total(moments[n]) / evidence for n in (1, 2)]
    return Exact(
        float(np.log(evidence)),
        {name: first for name, (first, _) in found.items()},
        {name: float(np.sqrt(second - first**2)) for name, (first, second) in found.items()},
        new[0],
        float(np.sqrt(new[1] - new[0] ** 2)),
    )
