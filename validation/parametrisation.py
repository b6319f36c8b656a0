"""Centred or non-centred: in which coordinates are values around a common one sampled better?

    python -m validation.parametrisation

Eight records of twenty measurements, y ~ Normal(k_r, noise), k_r ~ Normal(k, s), k ~ Normal(0, 5), s ~ HalfNormal(1).
The sampler moves k, log s and either the k_r themselves (centred) or z_r = (k_r - k) / s (non-centred).  Everything
but s is Gaussian, so evidence and moments of s are known by quadrature.
"""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from probsysid._internal.statistics import log_mean_exp, log_sum_exp
from probsysid.smc import ibis
from probsysid.smc.options import Sampler
from probsysid.smc.target import sweep_by_advance

RECORDS, SAMPLES, COMMON, SPREAD = 8, 20, 5.0, 0.5
SETS, PARTICLES = 5, 1024
ERRORS = {"weak": 1.5, "medium": 0.5, "strong": 0.05}
"""Standard error with which a record knows its own value; the spread is 0.5."""


def log_normal_density(score: Any) -> Any:
    return -0.5 * score**2 - 0.5 * np.log(2 * np.pi)


@dataclass(frozen=True)
class HierarchicalTarget:
    """The posterior given the measurements, record after record."""

    measured: np.ndarray
    noise: float
    centred: bool

    @property
    def samples(self) -> int:
        return self.measured.size

    def sample_prior(self, key: Any, count: int) -> np.ndarray:
        random = np.random.default_rng(np.asarray(jax.random.key_data(key)))
        k, s = COMMON * random.standard_normal(count), np.abs(random.standard_normal(count))
        z = random.standard_normal((RECORDS, count))
        return np.stack([k, np.log(s), *(k + s * z if self.centred else z)])

    def log_prior(self, theta: Any) -> np.ndarray:
        k, log_s, *own = np.asarray(theta)
        with np.errstate(all="ignore"):
            z = (np.array(own) - k) / np.exp(log_s) if self.centred else np.array(own)
            common = log_normal_density(k / COMMON) - np.log(COMMON)
            spread = np.log(2) + log_normal_density(np.exp(log_s)) + log_s
            return common + spread + np.sum(log_normal_density(z) - (log_s if self.centred else 0), axis=0)

    def limit(self, first: int) -> int:
        return (first // SAMPLES + 1) * SAMPLES

    def advance(self, state: Any, theta: Any, first: int, last: int) -> tuple[Any, np.ndarray]:
        k, log_s, *own = np.asarray(theta)
        place = own[first // SAMPLES]
        with np.errstate(all="ignore"):
            value = place if self.centred else k + np.exp(log_s) * place
            scores = (self.measured.ravel()[first:last, None] - value) / self.noise
            return np.zeros((1, len(k))), np.log(self.noise) - log_normal_density(scores)

    def sweep(self, theta: Any, stop: int) -> tuple[Any, np.ndarray, np.ndarray]:
        return sweep_by_advance(self, theta, stop)

    def describe(self, sample: int) -> str:
        return f"sample {sample}"

    def cost(self, stop: int) -> int:
        return stop


def exact(measured: np.ndarray, noise: float) -> tuple[float, float, float]:
    """Log evidence, mean and sd of the spread."""
    log_s = np.linspace(-12, 3, 4000)
    s, means = np.exp(log_s), measured.mean(axis=1)
    within = np.sum(log_normal_density((measured - means[:, None]) / noise) - np.log(noise))
    within += 0.5 * RECORDS * np.log(2 * np.pi * noise**2 / SAMPLES)
    own, common = s**2 + noise**2 / SAMPLES, RECORDS * COMMON**2
    squares = np.sum((means - means.mean()) ** 2) / own + RECORDS * means.mean() ** 2 / (own + common)
    density = -0.5 * (RECORDS * np.log(2 * np.pi) + (RECORDS - 1) * np.log(own) + np.log(own + common) + squares)
    density += np.log(2) + log_normal_density(s) + log_s
    total = float(log_sum_exp(density))
    weights = np.exp(density - total)
    mean = float(weights @ s)
    return total + np.log(log_s[1] - log_s[0]) + float(within), mean, float(np.sqrt(weights @ (s - mean) ** 2))


def run(error: float, centred: bool, seed: int) -> list[float]:
    """Sweeps, median acceptance, error of the log evidence, error of the spread's mean in sd, ratio of its sd."""
    random, noise = np.random.default_rng(seed), error * np.sqrt(SAMPLES)
    values = 1 + SPREAD * random.standard_normal(RECORDS)
    measured = values[:, None] + noise * random.standard_normal((RECORDS, SAMPLES))
    truth, mean, sd = exact(measured, noise)
    target, sampler = HierarchicalTarget(measured, noise, centred), Sampler(particles=PARTICLES)
    state, accepted = ibis.start(target, sampler, seed), []
    while state.samples < target.samples:
        state, step = ibis.step(state, target, sampler)
        accepted += [rejuvenation.acceptance for rejuvenation in step.rejuvenations]
    weights, spread = state.normalised_weights, np.exp(state.flat_theta[1])
    found = float(weights @ spread)
    off = float(log_mean_exp(state.evidence_by_population)) - truth
    ratio = np.sqrt(weights @ (spread - found) ** 2) / sd
    return [state.work / PARTICLES / target.samples, float(np.median(accepted)), off, (found - mean) / sd, ratio]


def main() -> None:
    print("data | coordinates | sweeps | acceptance | rms error of log evidence | of the spread / sd | ratio of its sd")
    for data, error in ERRORS.items():
        for centred in (False, True):
            rows = np.array([run(error, centred, seed) for seed in range(SETS)])
            sweeps, acceptance, _, _, ratio = rows.mean(axis=0)
            evidence, spread = np.sqrt(np.mean(rows[:, 2:4] ** 2, axis=0))
            word = "centred" if centred else "non-centred"
            cells = f"{sweeps:.0f} | {acceptance:.2f} | {evidence:.3f} | {spread:.3f} | {ratio:.2f}"
            print(f"{data} | {word} | {cells}", flush=True)


if __name__ == "__main__":
    main()
