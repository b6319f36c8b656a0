"""Energies and moments of data whose noise is not plainly Gaussian, against quadrature."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

import probsysid as ps
from probsysid.model.noise import NoiseForm, NoiseValues
from probsysid.model.particle import Particle
from probsysid.odefilter.arrays.step import ArrayFilter
from probsysid.odefilter.filter import VectorisedFilter
from probsysid.odefilter.filter_inputs import prepare
from probsysid.odefilter.layout import Layout
from probsysid.odefilter.noise_likelihood import assimilate
from probsysid.odefilter.packed_samples import PackedSamples
from probsysid.odefilter.runge_kutta import RungeKuttaFilter
from probsysid.odefilter.runge_kutta import prepare as prepare_runge_kutta
from probsysid.odefilter.unrolled.step import UnrolledFilter

Likelihood = Callable[[float], float]

STUDENT = 1e-5
"""What the sum over precisions leaves of a log density; quadrature by scipy is better than 1e-9."""

PREDICTED = [(0.4, 1e-3), (0.4, 0.3), (-2.5, 1.0), (1.2, 4.0)]
"""Mean and standard deviation of the output without noise."""


def noise(level: float = 1.0, degrees: float | None = None, **form: Any) -> NoiseValues:
    return NoiseValues(jnp.asarray(level), None if degrees is None else jnp.asarray(degrees), None, NoiseForm(**form))


def by_quadrature(likelihood: Likelihood, mean: float, sd: float, breaks: list[float]) -> tuple[float, float, float]:
    """Energy, change of the output's mean in its standard deviations, and ratio of its standard deviations."""
    low, high = mean - 12 * sd, mean + 12 * sd
    edges = [low, *sorted(x for x in (mean, *breaks) if low < x < high), high]

    def moment(k: int) -> float:
        def integrand(x: float) -> float:
            return likelihood(x) * stats.norm.pdf(x, mean, sd) * ((x - mean) / sd) ** k

        pairs = pairwise(edges)
        return float(sum(integrate.quad(integrand, a, b, epsabs=0, epsrel=1e-11, limit=400)[0] for a, b in pairs))

    total, first, second = (moment(k) for k in range(3))
    change = first / total
    return -np.log(total), change, np.sqrt(second / total - change**2)


def by_us(given: NoiseValues, observed: float, mean: float, sd: float) -> tuple[float, float, float]:
    found = assimilate(given, jnp.asarray(observed), jnp.asarray(mean), jnp.asarray(sd**2))
    return float(found.energy), float(found.correction) * sd, 1 - float(found.shrink) * sd**2


@pytest.mark.parametrize(("mean", "sd"), PREDICTED)
@pytest.mark.parametrize("degrees", [1.0, 4.0, 50.0])
@pytest.mark.parametrize("observed", [0.5, 6.0, 200.0])
def test_student_t(observed: float, degrees: float, mean: float, sd: float) -> None:
    level = 0.7
    expected = by_quadrature(
        lambda x: stats.t.pdf((observed - x) / level, degrees) / level,
        mean,
        sd,
        [observed + level * k for k in (-4, -1, 0, 1, 4)],
    )
    np.testing.assert_allclose(by_us(noise(level, degrees), observed, mean, sd), expected, atol=10 * STUDENT)


@pytest.mark.parametrize(("mean", "sd"), PREDICTED)
@pytest.mark.parametrize("step", [0.05, 0.5, 8.0])
def test_quantised(step: float, mean: float, sd: float) -> None:
    """The density is that of a noisy output that is uniformly distributed over the step."""
    observed, level = 1.0, 0.3
    ends = observed - 0.5 * step, observed + 0.5 * step

    def likelihood(x: float) -> float:
        a, b = ((end - x) / level for end in ends)
        a, b = (-b, -a) if a + b > 0 else (a, b)
        return float(stats.norm.cdf(b) - stats.norm.cdf(a)) / step

    expected = by_quadrature(likelihood, mean, sd, [*ends, observed])
    np.testing.assert_allclose(by_us(noise(level, step=step), observed, mean, sd), expected, rtol=1e-7, atol=1e-9)


def test_a_fine_step_is_no_step() -> None:
    plain = by_us(noise(0.3), 1.0, 0.4, 0.5)
    np.testing.assert_allclose(by_us(noise(0.3, step=1e-5), 1.0, 0.4, 0.5), plain, atol=1e-9)


@pytest.mark.parametrize(("mean", "sd"), [*PREDICTED, (-3.0, 0.5), (6.0, 0.5)])
@pytest.mark.parametrize("degrees", [None, 4.0])
@pytest.mark.parametrize("side", ["lower", "upper"])
def test_clipped(side: str, degrees: float | None, mean: float, sd: float) -> None:
    level, bound = 0.6, 1.5
    sign = 1.0 if side == "upper" else -1.0
    given = noise(level, degrees, **{side: bound})
    distribution = stats.norm() if degrees is None else stats.t(degrees)
    expected = by_quadrature(
        lambda x: float(distribution.cdf(sign * (x - bound) / level)), mean, sd, [bound - level, bound, bound + level]
    )
    np.testing.assert_allclose(by_us(given, bound, mean, sd), expected, atol=1e-7 if degrees is None else 10 * STUDENT)
    inside = bound - sign
    np.testing.assert_allclose(by_us(given, inside, mean, sd), by_us(noise(level, degrees), inside, mean, sd))


def test_a_clipped_value_that_was_predicted_tells_nothing() -> None:
    energy, change, ratio = by_us(noise(0.1, upper=1.0), 1.0, 5.0, 0.2)
    np.testing.assert_allclose((energy, change, ratio), (0.0, 0.0, 1.0), atol=1e-12)


def test_a_logarithm_gives_the_density_of_the_value_itself() -> None:
    observed, level = 3.0, 0.4
    found = assimilate(noise(level, log=True), jnp.asarray(observed), jnp.log(2.0), jnp.asarray(0.0))
    np.testing.assert_allclose(-float(found.energy), stats.lognorm.logpdf(observed, level, scale=2.0), rtol=1e-12)


def test_missing_values_change_nothing() -> None:
    for given in (noise(log=True), noise(degrees=3.0), noise(step=0.1), noise(lower=-1.0, upper=2.0)):
        found = assimilate(given, jnp.asarray(np.nan), jnp.asarray(0.3), jnp.asarray(0.5))
        assert (float(found.energy), float(found.correction), float(found.shrink), float(found.white)) == (0, 0, 0, 0)


def test_an_outlier_moves_little_and_a_larger_one_less() -> None:
    changes = [by_us(noise(0.1, 4.0), observed, 0.0, 0.1)[1] for observed in (0.3, 3.0, 30.0)]
    assert changes[0] > changes[1] > changes[2] > 0
    assert by_us(noise(0.1), 30.0, 0.0, 0.1)[1] > 1000 * changes[2]


def test_normal_scores_of_student_t_noise_are_standard_normal() -> None:
    errors = stats.t.rvs(3.0, size=4000, random_state=np.random.default_rng(1))
    found = assimilate(noise(1.0, 3.0), jnp.asarray(errors), jnp.zeros(4000), jnp.zeros(4000))
    assert stats.kstest(np.asarray(found.white), "norm").pvalue > 0.01


# In the filter

MODEL = ps.Model(
    {"x": 2}, lambda s, u, p: {"x": -4.0 * s.x - 0.4 * s.dx}, lambda s, u, p: {"a": s.x + 3.0, "b": s.dx, "c": s.x}
)


def mixed_particles(count: int) -> Particle:
    each = np.linspace(0.8, 1.2, count)
    kinds = [
        NoiseValues(0.1 * each, None, None, NoiseForm(log=True)),
        NoiseValues(0.2 * each, 4.0 * each, None, NoiseForm(upper=1.0)),
        NoiseValues(0.1 * each, None, None, NoiseForm(step=0.2)),
    ]
    return Particle({}, kinds, [each, 0 * each], [0 * each, 0 * each])


def mixed_record(samples: int = 30) -> ps.Record:
    time = 0.1 * np.arange(samples)
    x = np.exp(-0.2 * time) * np.cos(2 * time)
    rng = np.random.default_rng(3)
    b = np.minimum(np.gradient(x, time) + 0.2 * rng.standard_t(4, samples), 1.0)
    b[7] = np.nan
    outputs = {"a": (x + 3) * np.exp(0.1 * rng.normal(size=samples)), "b": b, "c": 0.2 * np.round(x / 0.2)}
    return ps.Record(outputs=outputs, dt=0.1)


def energies(vectorised: VectorisedFilter, samples: PackedSamples, particles: Particle) -> np.ndarray:
    state, first = vectorised.start(particles, samples)
    _, later = vectorised.advance(state, particles, samples, 1, len(samples))
    return np.concatenate([np.asarray(first), np.asarray(later)[: len(samples) - 1]])


@pytest.mark.parametrize("joint", [True, False])
def test_both_forms_of_the_filter_agree(joint: bool) -> None:
    record, particles = mixed_record(), mixed_particles(3)
    layout = Layout((2,), (3,))
    found = []
    for form in (UnrolledFilter, ArrayFilter):
        ode_filter = form(MODEL, layout, ps.EKF1(), ps.Dynamic(2.0), joint=joint)
        samples = PackedSamples.of(prepare(record, ode_filter, 1))
        found.append(energies(VectorisedFilter(ode_filter), samples, particles))
    assert np.all(np.isfinite(found[0]))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-9, atol=1e-9)


def test_the_pilot_agrees_with_a_filter_whose_steps_are_short() -> None:
    """Under solver conditioning, where the data do not correct the state."""
    record, particles = mixed_record(), mixed_particles(3)
    ode_filter = UnrolledFilter(MODEL, Layout((2,), (5,)), ps.EKF1(), ps.Dynamic(2.0), joint=False)
    ours = energies(VectorisedFilter(ode_filter), PackedSamples.of(prepare(record, ode_filter, 1)), particles)
    pilot = PackedSamples.of(prepare_runge_kutta(record, MODEL, 8))
    found = energies(VectorisedFilter(RungeKuttaFilter(MODEL)), pilot, particles)
    np.testing.assert_allclose(found, ours, atol=2e-4)


RAMP = ps.Model({"x": 1}, lambda s, u, p: {"x": p.slope + 0.0 * s.x}, lambda s, u, p: {"a": s.x})


def test_a_missing_value_may_have_no_logarithm() -> None:
    """x = slope t is zero at the first sample, where nothing was measured.  The motion is integrated exactly, so that
    energies are those of lognormal densities."""
    time, slope, level = 0.5 * np.arange(5), np.array([1.0, 2.0]), 0.3
    values = np.array([np.nan, 0.7, 1.1, np.nan, 1.8])
    record = ps.Record(outputs={"a": values}, dt=0.5)
    kind = NoiseValues(np.full(2, level), None, None, NoiseForm(log=True))
    particles = Particle({"slope": slope}, [kind], [np.zeros(2)], [np.zeros(2)])
    with np.errstate(divide="ignore"):
        exact = -stats.lognorm.logpdf(values[:, None], level, scale=time[:, None] * slope)
    found = []
    for form in (UnrolledFilter, ArrayFilter):
        ode_filter = form(RAMP, Layout((1,), (2,)), ps.EKF1(), ps.Dynamic(2.0))
        found.append(
            energies(VectorisedFilter(ode_filter), PackedSamples.of(prepare(record, ode_filter, 1)), particles)
        )
    pilot, samples = VectorisedFilter(RungeKuttaFilter(RAMP)), PackedSamples.of(prepare_runge_kutta(record, RAMP, 1))
    found.append(energies(pilot, samples, particles))
    for ours in found:
        np.testing.assert_allclose(ours, np.where(np.isnan(exact), 0.0, exact), rtol=1e-9, atol=1e-9)
