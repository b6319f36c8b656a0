"""More draws from a posterior that has been found: importance sampling.

A run has to find the posterior; once it has, a distribution fitted to the particles is so close to it that most fresh
draws are worth one each, for a single sweep over the data instead of tens.  Their weights are exact, so what the
particles got wrong by chance does not matter; and their mean is the evidence.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from probsysid.adequacy import UNRELIABLE, smoothed
from probsysid.checks import is_whole
from probsysid.errors import InputError, SamplingError
from probsysid.experiment import Experiment
from probsysid.smc import weights as w
from probsysid.smc.proposals import Collapsed, Ellipsoid, Mixture, StudentMixture
from probsysid.smc.target import browse

if TYPE_CHECKING:
    from probsysid.posterior import Posterior

PARTS = 8
"""Independent parts of the draws, whose spread gives the error of the evidence."""

ROUNDS, GOOD = 4, 0.3
"""The distribution is fitted again to its own weighted draws until one is worth this much, so many times at most."""

FEWEST = 64


def refine(posterior: "Posterior", draws: int, seed: int) -> "Posterior":
    """The same posterior with so many fresh weighted draws in place of its particles."""
    if not is_whole(draws) or draws < FEWEST:
        raise InputError(f"draws is {draws!r}; it must be a whole number, {FEWEST} or more.")
    if not posterior.records:
        raise InputError("this posterior was loaded without its records; more draws need them.")
    target = LogTarget(posterior)
    random = np.random.default_rng([seed, 6])
    close = _close_to(posterior, target, random)
    theta = close.sample(random, -(-draws // PARTS) * PARTS)
    ratios = target(theta) - close.log_density(theta)
    weights, shape = smoothed(ratios)
    if shape >= UNRELIABLE:
        raise SamplingError(
            "no distribution was found that is close enough to the posterior for fresh draws (Pareto shape "
            f"{shape:.2g}, at most {UNRELIABLE} will do); run again with more particles."
        )
    settings = posterior.settings | {
        "particles": theta.shape[1],
        "refined_from": posterior.population,
        "pareto_shape": shape,
        "sweeps": posterior.settings["sweeps"] * len(posterior.weights) / theta.shape[1] + target.work / theta.shape[1],
    }
    space = posterior.question.space
    return replace(
        posterior,
        values={name: np.asarray(value) for name, value in space.values(theta).items()},
        theta=theta,
        weights=weights,
        evidence_by_part=w.log_mean(ratios.reshape(PARTS, -1)),
        settings=settings,
    )


class LogTarget:
    """Log of prior times likelihood, for any number of particles: in portions as large as the run's population, so that
    its programs serve."""

    def __init__(self, posterior: "Posterior"):
        question, self.portion = posterior.question, posterior.population
        level = None
        if posterior.settings.get("steps_chosen"):
            level = int(question.solver.steps).bit_length() - 1
            question = replace(question, solver=replace(question.solver, substeps="auto"))
        experiment = Experiment(question, posterior.records, self.portion)
        self.target: Any = experiment if level is None else experiment.at(level)
        self.work = 0

    def __call__(self, theta: Float[np.ndarray, "dimension particle"]) -> Float[np.ndarray, " particle"]:
        self.work += theta.shape[1]
        return np.concatenate(
            [self._one(theta[:, i : i + self.portion]) for i in range(0, theta.shape[1], self.portion)]
        )

    def _one(self, theta: np.ndarray) -> np.ndarray:
        count = theta.shape[1]
        filled = np.pad(theta, ((0, 0), (0, self.portion - count)), mode="edge")
        _, likelihood, energy = browse(self.target, filled, self.target.samples)
        total = np.asarray(self.target.log_prior(filled)) + likelihood - energy
        return np.where(np.isnan(total), -np.inf, total)[:count]


def _close_to(posterior: "Posterior", target: LogTarget, random: np.random.Generator) -> StudentMixture:
    """A distribution close to the posterior: the better of an ellipsoid and a mixture on the particles, and on draws
    from the one before where that was poor."""
    theta, weights = posterior.theta, posterior.weights
    for _ in range(ROUNDS):
        trials = [_trial(family, theta, weights, target, random) for family in (Ellipsoid(), Mixture())]
        close, draws, ratios = max(trials, key=lambda trial: _worth(trial[2]))
        if _worth(ratios) >= GOOD * len(ratios):
            break
        theta, weights = np.hstack([theta, draws]), np.append(weights / 2, w.normalise(ratios) / 2)
    return close


def _trial(
    family: Any, theta: np.ndarray, weights: np.ndarray, target: LogTarget, random: np.random.Generator
) -> tuple[StudentMixture, np.ndarray, np.ndarray]:
    try:
        close = family.fit(random, theta, weights)
    except Collapsed as error:
        raise SamplingError(f"no distribution can be fitted to the particles: {error}.") from None
    draws = close.sample(random, target.portion)
    return close, draws, target(draws) - close.log_density(draws)


def _worth(ratios: np.ndarray) -> float:
    return float(w.effective_size(ratios[None])[0])
