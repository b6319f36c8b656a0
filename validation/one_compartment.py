"""posteriordb's one-compartment model (one_comp_mm_elim_abs-one_comp_mm_elim_abs) in its own lognormal form.

A dose D is absorbed at the rate k_a into a compartment of volume V and eliminated by Michaelis-Menten kinetics; the
concentration is measured with lognormal noise, 20 times, and is zero at first.  All priors are half-Cauchy.
`python -m validation.one_compartment` computes the evidence of the reference.
"""

from itertools import pairwise

import numpy as np
from scipy import stats

import probsysid as ps
from probsysid import dist

DOSE, VOLUME, DT = 30.0, 2.0, 0.5
MEASURED = (
    "5.70812264865215 7.10126075072086 8.38520678426651 9.79008249883381 13.4390409239245 11.4478987597702 "
    "11.2124282696837 11.4269217682577 12.2432859438401 13.8201804108938 13.8408670746042 11.422291744251 "
    "10.5031943081843 11.9121452242965 14.0849980781312 10.5505145523917 10.1905539351877 12.2232272590821 "
    "11.7290653047821 12.2719396535996"
)
"""Concentrations at 0.5, 1, ..., 10 days, simulated by the model's authors (posteriordb, BSD licence)."""

REFERENCE = {
    "k_a": (-0.2782, 0.1006, 0.6460, 0.7550, 0.8964),
    "K_m": (-0.0729, 1.4295, 0.0859, 0.9795, 8.6852),
    "V_m": (-0.0750, 0.2902, 0.6490, 0.8973, 1.4751),
    "noise.C": (-2.0649, 0.1752, 0.0967, 0.1255, 0.1716),
}
"""Of posteriordb's 10 000 reference draws, from Stan: mean and standard deviation of the logarithm; 5 %, 50 % and 95 %
quantiles.  K_m itself has hardly a variance."""

DRAWS = 10_000

LOG_EVIDENCE = -41.135
"""By importance sampling on Runge-Kutta steps of 0.01 days, 40 000 points around the reference draws: +- 0.005; with
steps of 0.0025 days the same to 1e-5."""

MODEL = ps.Model(
    {"A": 1, "C": 1},
    lambda s, u, p: {"A": -p.k_a * s.A, "C": p.k_a * s.A / VOLUME - p.V_m / VOLUME * s.C / (p.K_m + s.C)},
    lambda s, u, p: {"C": s.C},
    name="one compartment",
)
INITIAL = {"A": DOSE, "C": 0.0}
PRIORS = {name: dist.HalfCauchy(1.0) for name in ("k_a", "K_m", "V_m")}
NOISE = {"C": ps.Noise(dist.HalfCauchy(1.0), transform="log")}


def record() -> ps.Record:
    """Nothing is measured at the first sample, where the concentration is zero."""
    return ps.Record(outputs={"C": np.array([np.nan, *map(float, MEASURED.split())])}, dt=DT)


def identified(particles: int, seed: int, **options: object) -> ps.Posterior:
    """All defaults but for the number of particles."""
    sampler = ps.Sampler(particles=particles)
    return ps.identify(MODEL, record(), PRIORS, NOISE, INITIAL, sampler=sampler, seed=seed, **options)


def log_likelihood(theta: np.ndarray, steps: int) -> np.ndarray:
    """Of logarithms of k_a, K_m, V_m and the noise level, (quantity, draw), by Runge-Kutta steps."""
    k_a, k_m, v_m, level = np.exp(theta)
    length, time, total, amount = DT / steps, 0.0, 0.0, np.zeros_like(k_a)

    def rate(t: float, c: np.ndarray) -> np.ndarray:
        return k_a * DOSE / VOLUME * np.exp(-k_a * t) - v_m / VOLUME * c / (k_m + c)

    for value in map(float, MEASURED.split()):
        for _ in range(steps):
            first = rate(time, amount)
            second = rate(time + length / 2, amount + length / 2 * first)
            third = rate(time + length / 2, amount + length / 2 * second)
            fourth = rate(time + length, amount + length * third)
            amount = amount + length / 6 * (first + 2 * second + 2 * third + fourth)
            time += length
        with np.errstate(divide="ignore", invalid="ignore"):
            total = total + stats.norm.logpdf(np.log(value), np.log(amount), level) - np.log(value)
    return np.asarray(total)


def log_evidence(draws: np.ndarray, points: int = 40_000, steps: int = 50) -> tuple[float, float]:
    """By importance sampling from Student-t distributions around slices of draws along K_m, and its standard error."""
    edges = np.quantile(draws[1], [0.0, 0.1, 0.3, 0.6, 0.85, 1.0])
    parts = []
    for low, high in pairwise(edges):
        part = draws[:, (draws[1] >= low) & (draws[1] <= high)]
        wide = 1.7 * np.cov(part) + np.diag([1e-4, 0.05, 1e-3, 1e-4])
        parts.append((stats.multivariate_t(part.mean(axis=1), wide, df=5, seed=len(parts)), part.shape[1]))
    total = sum(count for _, count in parts)
    theta = np.concatenate([one.rvs(points * count // total).T for one, count in parts], axis=1)
    proposal = np.logaddexp.reduce([np.log(count / total) + one.logpdf(theta.T) for one, count in parts])
    prior = np.sum(np.log(2 / np.pi) - np.log1p(np.exp(2 * theta)) + theta, axis=0)
    logs = log_likelihood(theta, steps) + prior - proposal
    logs = np.where(np.isfinite(logs), logs, -np.inf)
    weights = np.exp(logs - logs.max())
    error = float(weights.std() / weights.mean() / np.sqrt(len(weights)))
    return float(logs.max() + np.log(weights.mean())), error


def main() -> None:
    found = identified(4096, 0)
    chosen = np.random.default_rng(0).choice(len(found.weights), DRAWS, p=found.weights)
    draws = np.log(np.stack([found.values[name][chosen] for name in REFERENCE]))
    print("log evidence on Runge-Kutta steps: {:.3f} +- {:.3f}".format(*log_evidence(draws)))


if __name__ == "__main__":
    main()
