"""Four systems with known constants, sampled so coarsely that the integration error matters.

Each starts from a known state, so that the initial state plays no role.  The noise level is known as well: inferred,
it would absorb part of the integration error and flatter every method.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax.numpy as jnp
import numpy as np

import probsysid as ps
from probsysid import dist
from probsysid.benchmarks import bouc_wen
from probsysid.model.parameter_space import ParameterSpace
from probsysid.posterior.simulate import simulate

FINE = 64
"""Runge-Kutta steps per sample for the truth."""


@dataclass(frozen=True, eq=False)
class HonestyProblem:
    """A system, its constants, and the recipe of its records."""

    name: str
    model: ps.Model
    typical: Mapping[str, float]
    spread: Mapping[str, float]
    """Standard deviation of the logarithm of each constant in the prior."""
    start: tuple[float, ...]
    noise: Mapping[str, float]
    dt: float
    samples: int
    force: Callable[[np.random.Generator, int, float], np.ndarray] | None = None
    products: tuple[tuple[str, str], ...] = ()
    """Pairs of constants of which the data identify the product alone."""
    fine: int = 16
    """Runge-Kutta steps per sample of the gold standard.  Over the posteriors of two data sets per problem, its log
    likelihood differs from that of 64 steps by 0.02 (sd, Bouc-Wen), 0.007 (van der Pol) or less than 0.001."""

    @cached_property
    def priors(self) -> dict[str, Any]:
        """Log-normal priors around the typical constants."""
        return {name: _prior(value, self.spread[name]) for name, value in self.typical.items()}

    @cached_property
    def space(self) -> ParameterSpace:
        return ParameterSpace.from_priors(self.priors)

    def truth(self, seed: int) -> dict[str, float]:
        """Constants drawn from the prior, so that intervals of an exact method have their nominal coverage."""
        random = np.random.default_rng([32, seed])
        draws = {name: np.exp(self.spread[name] * random.standard_normal()) for name in self.typical}
        return {name: float(value * draws[name]) for name, value in self.typical.items()}

    def record(self, seed: int) -> ps.Record:
        """A noisy record of the true motion."""
        random = np.random.default_rng([31, seed])
        inputs = {"force": self.force(random, self.samples, self.dt)} if self.force else {}
        clean = ps.Record(inputs=inputs, dt=self.dt, intersample="periodic", samples=self.samples)
        values = {name: np.array([value]) for name, value in self.truth(seed).items()}
        outputs, _, _ = simulate(self.model, values, np.array(self.start)[:, None], clean, FINE)
        noisy = {n: y[0] + self.noise[n] * random.standard_normal(self.samples) for n, y in outputs.items()}
        return clean.replace(outputs=noisy)

    def quantities(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The scored quantities: the constants, with products in place of those that are identified only in them.

        The marginals of the latter are the prior's whatever the data are: they would flatter every method.
        """
        paired = {name for pair in self.products for name in pair}
        single = {name: values[name] for name in self.typical if name not in paired}
        return single | {f"{a} {b}": values[a] * values[b] for a, b in self.products}

    @property
    def initial(self) -> dict[str, float]:
        return dict(zip(self.model.physical_names, self.start, strict=True))


def _prior(value: float, spread: float) -> Any:
    prior = dist.LogNormal(np.log(abs(value)), spread)
    negated = dist.transforms.AffineTransform(0.0, -1.0, domain=prior.support)  # knows that it ends at zero
    return prior if value > 0 else dist.TransformedDistribution(prior, negated)


def multisine(low: float, high: float, rms: float) -> Callable[[np.random.Generator, int, float], np.ndarray]:
    """A periodic random-phase force over a band, in Hz."""

    def make(random: np.random.Generator, samples: int, dt: float) -> np.ndarray:
        frequencies = np.fft.rfftfreq(samples, dt)
        phases = np.exp(2j * np.pi * random.random(len(frequencies)))
        spectrum = np.where((frequencies >= low) & (frequencies <= high), phases, 0)
        force = np.fft.irfft(spectrum, samples)
        return force * rms / force.std()

    return make


duffing = HonestyProblem(
    "duffing",
    ps.Model(
        {"x": 2},
        lambda s, u, p: {"x": (u.force - p.c * s.dx - p.k * s.x - p.k3 * s.x**3) / p.m},
        lambda s, u, p: {"position": s.x},
        name="Duffing oscillator",
    ),
    typical={"m": 5.4e-6, "c": 2.25e-4, "k": 0.99, "k3": 4.0},
    spread={"m": 0.1, "c": 0.3, "k": 0.1, "k3": 0.3},
    start=(0.0, 0.0),
    noise={"position": 2e-3},
    dt=1 / 610.35,
    samples=768,
    force=multisine(0.5, 200.0, 0.0225),
)

bouc_wen_coarse = HonestyProblem(
    "bouc-wen",
    bouc_wen.model,
    typical=bouc_wen.TRUTH,
    spread={"m": 0.05, "c": 0.3, "k": 0.2, "alpha": 0.2, "beta": 0.2, "gamma": 0.2, "delta": 0.2},
    start=(0.0, 0.0, 0.0),
    noise={"acceleration": 2.0},
    dt=1 / 1024,
    samples=1024,
    force=multisine(0.5, 100.0, 60.0),
    products=(("beta", "gamma"), ("beta", "delta")),
)

van_der_pol = HonestyProblem(
    "van-der-pol",
    ps.Model(
        {"x": 2},
        lambda s, u, p: {"x": p.mu * (1 - s.x**2) * s.dx - p.k * s.x},
        lambda s, u, p: {"position": s.x},
        name="van der Pol oscillator",
    ),
    typical={"mu": 2.0, "k": 1.0},
    spread={"mu": 0.2, "k": 0.1},
    start=(1.0, 0.0),
    noise={"position": 0.05},
    dt=0.35,
    samples=200,
)

lotka_volterra = HonestyProblem(
    "lotka-volterra",
    ps.Model(
        {"prey": 1, "predators": 1},
        lambda s, u, p: {
            "prey": p.alpha * s.prey - p.beta * s.prey * s.predators,
            "predators": p.delta * s.prey * s.predators - p.gamma * s.predators,
        },
        lambda s, u, p: {"hares": jnp.log(s.prey), "lynxes": jnp.log(s.predators)},
        name="Lotka-Volterra model",
    ),
    typical={"alpha": 0.55, "beta": 0.028, "gamma": 0.8, "delta": 0.024},
    spread={"alpha": 0.1, "beta": 0.1, "gamma": 0.1, "delta": 0.1},
    start=(34.0, 5.9),
    noise={"hares": 0.1, "lynxes": 0.1},
    dt=1.0,
    samples=60,
)

PROBLEMS = {p.name: p for p in (duffing, bouc_wen_coarse, van_der_pol, lotka_volterra)}
