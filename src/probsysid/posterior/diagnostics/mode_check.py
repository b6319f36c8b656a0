"""Has the run lost a mode?  Modes that a search found, held against the particles.

Populations that all miss a mode agree with each other, and draws from a distribution fitted to them confirm them.  So
modes are searched from prior draws as well.  What counts is mass, not height: a peak that is too narrow to hold any
mass is no alarm, however high.  Around each mode lies a neighbourhood, the ellipsoid of its curvature that would hold
nine tenths of a Gaussian.  Where the particles have far less weight in it than Laplace's approximation gives it, its
mass is determined by importance sampling from the run's own target.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import chdtri

from probsysid._internal.statistics import log_mean_exp, log_sum_exp
from probsysid.posterior.modes import Mode
from probsysid.smc.proposals import MixtureDensity

WITHIN = 0.9
"""Mass of a Gaussian inside the neighbourhood of its mode."""

RELEVANT = 0.01
"""Share of the posterior's mass from which on the loss of a mode matters ..."""
EXPECTED = 5.0
"""... if that many effective particles would be there: with fewer, none at all is no surprise ..."""
LARGE = 0.1
"""... but a share from which on the loss matters whether it is a surprise or not."""

REACHED = 0.1
"""Weight of the particles in a neighbourhood, over its mass, below which they do not reach the mode."""

DEGREES = 5.0
"""Of freedom, of the distribution around a mode."""

MOST_NAMED = 6
"""Quantities whose values a sentence gives."""


@dataclass(frozen=True)
class MAPEstimate:
    """A mode of the posterior density in unconstrained coordinates, and Laplace's approximation there."""

    values: dict[str, float]
    """Of every scalar quantity, in its own unit."""
    log_density: float
    """Log of likelihood times prior, in unconstrained coordinates."""
    log_evidence: float
    """Laplace's approximation of the log of the integral around it."""

    @property
    def place(self) -> str:
        """Where it is, in words."""
        named = [f"{name} = {value:.4g}" for name, value in self.values.items()]
        return ", ".join(named[:MOST_NAMED] + ["..."] * (len(named) > MOST_NAMED))


@dataclass(frozen=True)
class LostMode:
    """A mode with mass that the particles do not reach."""

    mode: MAPEstimate
    share: float
    """Of the posterior's mass, in the neighbourhood of the mode, if the run has missed all of it."""
    weight: float
    """Of the particles there."""

    @property
    def sentence(self) -> str:
        few = "no particle reaches" if self.weight == 0 else f"particles with a weight of {self.weight:.1g} reach"
        return f"{few} a mode with {100 * self.share:.2g} % of the mass, at {self.mode.place}"


@dataclass(frozen=True)
class ModeCheck:
    """What a search for modes found."""

    found: tuple[MAPEstimate, ...] = ()
    """Modes, best first."""
    lost: tuple[LostMode, ...] = ()
    starts: int = 0
    unfinished: int = 0
    """Searches that had come to no end when the price was reached."""
    price: float = 0.0
    """Evaluations over those of the run, in units of the filter's."""
    seconds: float = 0.0
    """Time that it took, with compiling."""
    skipped: str = ""
    """Why there was no search."""

    @property
    def reasons(self) -> tuple[str, ...]:
        """What speaks against the sampling, in words."""
        return tuple(lost.sentence for lost in self.lost)

    @property
    def sentence(self) -> str:
        """What is known of further modes."""
        if self.skipped:
            return f"modes were not searched: {self.skipped}"
        rest = f" ({self.unfinished} came to no end)" if self.unfinished else ""
        return f"searches from {self.starts} starts{rest} found no mode that the particles miss"

    @property
    def log_evidence(self) -> float:
        """Laplace's, of all modes together; NaN without any."""
        return float(log_sum_exp(np.array([m.log_evidence for m in self.found]))) if self.found else float("nan")

    def to_record(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "ModeCheck":
        """From the plain data of `to_record`."""
        found = tuple(MAPEstimate(**mode) for mode in record["found"])
        lost = tuple(LostMode(**{**each, "mode": MAPEstimate(**each["mode"])}) for each in record["lost"])
        return cls(**{**record, "found": found, "lost": lost})


def weight_around(
    mode: Mode, theta: Float[np.ndarray, "dimension particle"], weights: Float[np.ndarray, " particle"]
) -> float:
    """Weight of the particles in the neighbourhood of a mode."""
    return float(weights @ _inside(mode, theta))


def suspects(
    modes: Sequence[Mode],
    theta: Float[np.ndarray, "dimension particle"],
    weights: Float[np.ndarray, " particle"],
    effective: float,
    log_evidence: float = -np.inf,
) -> list[Mode]:
    """Modes that the particles seem to miss, by Laplace's approximation; most massive first.

    `effective` is the number of effective particles, `log_evidence` the run's on the scale of the modes' densities.
    """
    if not modes:
        return []
    masses = np.array([mode.log_evidence for mode in modes])
    shares = WITHIN * np.exp(masses - max(float(log_sum_exp(masses)), log_evidence))
    missed = [
        (share, mode)
        for share, mode in zip(shares, modes, strict=True)
        if _matters(share, effective) and weight_around(mode, theta, weights) < REACHED * share
    ]
    return [mode for _, mode in sorted(missed, key=lambda pair: -pair[0])]


def mass_around(
    mode: Mode, target: Callable[[np.ndarray], np.ndarray], random: np.random.Generator, count: int
) -> float:
    """Log of the target's integral over the neighbourhood of a mode, by importance sampling."""
    source = MixtureDensity(np.ones(1), mode.theta[None], mode.factor[None], DEGREES)
    draws = source.sample(random, count)
    with np.errstate(invalid="ignore"):
        logs = target(draws) - source.log_density(draws)
    return float(log_mean_exp(np.where(_inside(mode, draws) & ~np.isnan(logs), logs, -np.inf)))


def is_lost(log_mass: float, weight: float, log_evidence: float, effective: float) -> tuple[bool, float]:
    """Whether particles with this weight miss a mass, given the log evidence of their run, and its share."""
    share = float(1 / (1 + np.exp(np.clip(log_evidence - log_mass, -700, 700))))
    return _matters(share, effective) and weight < REACHED * share, share


def _matters(share: float, effective: float) -> bool:
    """Whether particles should be in a neighbourhood with this share of the mass."""
    return share > LARGE or (share > RELEVANT and share * effective > EXPECTED)


def _inside(mode: Mode, points: np.ndarray) -> np.ndarray:
    white = np.linalg.solve(mode.factor, points - mode.theta[:, None])
    return np.sum(white**2, axis=0) < chdtri(len(mode.theta), 1 - WITHIN)
