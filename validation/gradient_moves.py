"""`python -m validation.gradient_moves [DIMENSION ...]`: would moves by gradients pay?

Linear regression on 100 samples, tempered from the prior: our sampler, whose moves need no gradients, against an SMC
sampler with as many particles and preconditioned Hamiltonian moves.  A sweep of gradients costs several of values:
forward mode takes up to one for each parameter, reverse mode about four.
"""

import sys
import warnings

import numpy as np

from probsysid import Sampler
from probsysid._internal.statistics import effective_sample_size, log_mean_exp
from probsysid.inference.confirm import check
from probsysid.smc import ibis
from probsysid.smc.resampling import Systematic
from probsysid.smc.weights import normalise, temper
from tests.smc.conjugate import Regression
from validation.sampling_hard import values

SAMPLES, NOISE, PARTICLES = 100, 0.5, 1024
LEAPFROG, MOVES, STEP = 8, 2, 1.2
"""Steps per move, moves per temperature, and the step length times the fourth root of the dimension."""


def problem(dimension: int) -> Regression:
    random = np.random.default_rng(0)
    design = random.standard_normal((SAMPLES, dimension))
    outputs = design @ random.standard_normal(dimension) + NOISE * random.standard_normal(SAMPLES)
    return Regression(design, outputs, np.full(SAMPLES, NOISE), np.zeros(dimension), np.ones(dimension))


def ours(regression: Regression, seed: int) -> str:
    target, sampler = regression.target(), Sampler(recover=False, path="likelihood", particles=PARTICLES)
    run, _ = ibis.temper_all(ibis.start(target, sampler, seed), target, sampler)
    found = check(run, target, values, seed)
    sweeps, evidence = run.work / PARTICLES / SAMPLES, float(log_mean_exp(run.evidence_by_population))
    words = _words(regression, run.flat_theta, run.normalised_weights, evidence)
    return f"without gradients: {sweeps:.0f} sweeps, {words}, {found.status}"


def hamiltonian(regression: Regression, seed: int) -> str:
    design, outputs, random = regression.design / NOISE, regression.outputs / NOISE, np.random.default_rng(seed)
    dimension = design.shape[1]
    theta = random.standard_normal((dimension, PARTICLES))
    done, evidence, sweeps = 0.0, 0.0, 0
    while done < 1:
        energy = 0.5 * np.sum((design @ theta - outputs[:, None]) ** 2, axis=0)
        energy += SAMPLES * np.log(NOISE * np.sqrt(2 * np.pi))
        share = min(float(temper(np.zeros((1, PARTICLES)), energy[None], 0.5)), 1 - done)
        evidence += float(log_mean_exp(-share * energy))
        weights = normalise(-share * energy)
        done = 1.0 if share >= 1 - done else done + share
        centred = theta - (theta @ weights)[:, None]
        factor = np.linalg.cholesky((centred * weights) @ centred.T + 1e-9 * np.eye(dimension))
        theta = theta[:, Systematic()(random, weights, PARTICLES)]
        for _ in range(MOVES):
            theta = _move(theta, design, outputs, done, factor, random)
            sweeps += LEAPFROG + 1
    words = _words(regression, theta, np.full(PARTICLES, 1 / PARTICLES), evidence)
    return f"Hamiltonian: {sweeps} sweeps of gradients, {words}"


def _move(
    theta: np.ndarray,
    design: np.ndarray,
    outputs: np.ndarray,
    share: float,
    factor: np.ndarray,
    random: np.random.Generator,
) -> np.ndarray:
    """One trajectory and its acceptance, in coordinates in which the particles are round."""

    def log_density(theta: np.ndarray) -> np.ndarray:
        return -0.5 * np.sum(theta**2, axis=0) - 0.5 * share * np.sum((design @ theta - outputs[:, None]) ** 2, axis=0)

    def pull(theta: np.ndarray) -> np.ndarray:
        return factor.T @ (-theta - share * design.T @ (design @ theta - outputs[:, None]))

    step, momentum, place = STEP * len(theta) ** -0.25, random.standard_normal(theta.shape), theta
    before = log_density(theta) - 0.5 * np.sum(momentum**2, axis=0)
    momentum = momentum + 0.5 * step * pull(place)
    for k in range(LEAPFROG):
        place = place + step * factor @ momentum
        momentum = momentum + (step if k < LEAPFROG - 1 else 0.5 * step) * pull(place)
    after = log_density(place) - 0.5 * np.sum(momentum**2, axis=0)
    return np.where(np.log(random.random(theta.shape[1])) < after - before, place, theta)


def _words(regression: Regression, theta: np.ndarray, weights: np.ndarray, evidence: float) -> str:
    exact = regression.exact
    sd = np.sqrt(np.diag(exact.covariance[-1]))
    mean = theta @ weights
    off = np.sqrt(np.mean(((mean - exact.mean[-1]) / sd) ** 2))
    ratio = np.mean(np.sqrt((theta - mean[:, None]) ** 2 @ weights) / sd)
    size = float(effective_sample_size(np.log(np.maximum(weights, 1e-300))))
    error = evidence - exact.log_evidence[-1]
    return f"means off by {off:.3f} sd (rms), sd ratio {ratio:.3f}, log evidence off by {error:.2f}, weights {size:.0f}"


def main(dimensions: list[int]) -> None:
    warnings.simplefilter("ignore")
    for dimension in dimensions or [20, 50]:
        regression = problem(dimension)
        for seed in range(2):
            print(f"{dimension} dimensions, seed {seed}: {ours(regression, seed)}", flush=True)
            print(f"{dimension} dimensions, seed {seed}: {hamiltonian(regression, seed)}", flush=True)


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]])
