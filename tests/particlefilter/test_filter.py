"""The estimate of a likelihood is unbiased, with and without a guide."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import probsysid as ps
from probsysid.model.particle import Particle
from probsysid.model.problem import Problem
from probsysid.odefilter.filter import VectorisedFilter
from probsysid.particlefilter.filter import InnerFilter
from probsysid.particlefilter.smoothing import smoother
from probsysid.targets.integrators import PointFilters
from tests.particlefilter.linear import LinearModel

STEP, SUBSTEPS = 0.4, 2

OSCILLATOR = ps.Model(
    {"x": 2, "z": 1},
    lambda s, u, p: {"x": -2.0 * s.x - 0.5 * s.dx + s.z, "z": -p.k * s.z},
    lambda s, u, p: {"position": s.x, "sum": s.dx + s.z},
    diffusion=lambda s, u, p: {"x": {"both": 0.8, "x": 0.3}, "z": {"both": 0.5}},
)
LINEAR = LinearModel(
    drift=np.array([[0.0, 1.0, 0.0], [-2.0, -0.5, 1.0], [0.0, 0.0, -0.7]]),
    noise=np.array([[0.0, 0.0], [0.8, 0.3], [0.5, 0.0]]),
    readout=np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]]),
    variance=np.array([0.2**2, 0.4**2]),
    start=np.array([0.5, 0.0, -0.3]),
    step=STEP,
    substeps=SUBSTEPS,
)


def copies(particle: Particle, count: int) -> Particle:
    """The same parameters with independent seeds."""
    alike = jax.tree.map(lambda value: jnp.full(count, value), particle)
    return alike._replace(seed=[jnp.arange(count, dtype=float), jnp.full(count, 7.0)])


def estimates(
    model: ps.Model, record: ps.Record, settings: ps.ParticleFilter, particle: Particle, count: int
) -> np.ndarray:
    """Independent estimates of the log likelihood of a record, by sample."""
    integrator = PointFilters(settings, random=True)
    inner = integrator.sample_filter(model, None)
    assert isinstance(inner, InnerFilter)
    samples = integrator.samples(record, inner, settings.substeps)
    many = copies(particle, count)
    run = VectorisedFilter(inner)
    state, first = run.start(many, samples)
    _, rest = run.advance(state, many, samples, 1, record.samples)
    return -np.concatenate([np.asarray(first), np.asarray(rest)[: record.samples - 1]])


def check_unbiased(found: np.ndarray, exact: float) -> float:
    """The mean of the estimates is the likelihood, within 4 standard errors; returns their relative deviation."""
    ratios = np.exp(found - exact)
    sd = ratios.std(ddof=1)
    assert abs(ratios.mean() - 1) < 4 * sd / np.sqrt(len(ratios))
    return float(sd)


@pytest.mark.parametrize("missing", [False, True])
def test_linear_models_are_estimated_without_bias(missing: bool) -> None:
    outputs = LINEAR.simulate(12, seed=1)
    if missing:
        outputs[3], outputs[6, 0], outputs[8, 1] = np.nan, np.nan, np.nan
    record = ps.Record(outputs={"position": outputs[:, 0], "sum": outputs[:, 1]}, dt=STEP)
    particle = Particle({"k": 0.7}, [0.2, 0.4], list(LINEAR.start), [0.0, 0.0, 0.0])
    exact = LINEAR.log_likelihood(outputs).sum()
    spreads = {}
    for guide in ("ekf", "none"):
        settings = ps.ParticleFilter(32, guide, SUBSTEPS)
        spreads[guide] = check_unbiased(estimates(OSCILLATOR, record, settings, particle, 2000).sum(axis=0), exact)
    # the guide is exact here, but for the share of draws without it
    assert spreads["ekf"] < 0.5 * spreads["none"]


COUNTS = ps.Model(
    {"x": 1},
    lambda s, u, p: {"x": p.rate * s.x},
    lambda s, u, p: {"count": ps.dist.Poisson(jnp.maximum(s.x, 1e-3))},
    diffusion=lambda s, u, p: {"x": p.sigma * jnp.sqrt(jnp.maximum(s.x, 0.0))},
)


def counts_by_quadrature(counts: list[int], rate: float, sigma: float, start: float) -> float:
    """Log likelihood of counts at the ends of two intervals of one step each: a double integral by the trapezoidal
    rule, which converges exponentially."""
    h = STEP
    growth = 1 + h * rate * (1 + h * rate / 2 * (1 + h * rate / 3 * (1 + h * rate / 4)))
    grid = np.linspace(-30.0, 60.0, 6001)
    width = grid[1] - grid[0]

    def poisson(count: int) -> np.ndarray:
        mean = np.maximum(grid, 1e-3)
        return np.exp(count * np.log(mean) - mean - sum(np.log(np.arange(1, count + 1))))

    def arrived(before: np.ndarray) -> np.ndarray:
        sd = sigma * np.sqrt(np.maximum(before, 0.0) * h)
        with np.errstate(divide="ignore"):
            white = (grid[:, None] - growth * before) / np.where(sd > 0, sd, 1.0)
        # where there is no noise, the point stays on the grid's next place: far below zero, and of no weight
        return np.where(sd > 0, np.exp(-0.5 * white**2) / np.sqrt(2 * np.pi) / np.where(sd > 0, sd, 1.0), 0.0)

    first = arrived(np.array([start]))[:, 0] * poisson(counts[0]) * width
    large = grid > 2.0  # below, the density at the end is too narrow for the grid, and the weight negligible
    second = poisson(counts[1]) @ arrived(grid[large]) * width
    assert first[~large].sum() < 1e-9 * first.sum()
    return float(np.log(first[large] @ second))


def test_counts_with_noise_of_the_state_are_estimated_without_bias() -> None:
    counts, rate, sigma, start = [19, 12], 0.1, 1.3, 15.0
    record = ps.Record(outputs={"count": np.array([np.nan, *counts])}, dt=STEP)
    particle = Particle({"rate": rate, "sigma": sigma}, [0.0], [start], [0.0])
    exact = counts_by_quadrature(counts, rate, sigma, start)
    spreads = {}
    for guide in ("ekf", "none"):
        found = estimates(COUNTS, record, ps.ParticleFilter(32, guide, 1), particle, 4000)
        spreads[guide] = check_unbiased(found.sum(axis=0), exact)
    assert spreads["ekf"] < 0.7 * spreads["none"]


def test_one_point_suffices_where_nothing_is_random() -> None:
    """Counts of a motion that is known given the parameters: the likelihood is exact."""
    model = ps.Model({"x": 1}, lambda s, u, p: {"x": -p.k * s.x}, lambda s, u, p: {"n": ps.dist.Poisson(s.x)})
    problem = Problem.make(model, {"k": ps.dist.LogNormal(0.0, 1.0)}, {}, [{"x": 20.0}], None)
    inner = PointFilters.of(problem, ps.ParticleFilter()).sample_filter(model, None)
    assert inner.particles == 1 and not inner.guided


def test_smoothed_states_of_a_linear_model_are_exact() -> None:
    """Means and variances over paths of independent filters, each with an error of its own."""
    outputs, count, points = LINEAR.simulate(8, seed=2), 64, 512
    record = ps.Record(outputs={"position": outputs[:, 0], "sum": outputs[:, 1]}, dt=STEP)
    integrator = PointFilters(ps.ParticleFilter(points, "ekf", SUBSTEPS), random=True)
    inner = integrator.sample_filter(OSCILLATOR, None)
    packed = integrator.samples(record, inner, SUBSTEPS)
    samples = jax.vmap(packed.form.unpack)(jnp.asarray(packed.numbers))
    particle = Particle({"k": 0.7}, [0.2, 0.4], list(LINEAR.start), [0.0, 0.0, 0.0])
    found = smoother(inner, copies(particle, count), samples, jax.random.key(0))
    mean, sd = LINEAR.smoothed(outputs)
    np.testing.assert_allclose(np.asarray(found.mean)[0], LINEAR.start[:, None] * np.ones(count), rtol=1e-12)
    each = np.asarray(found.mean)[1:]
    error = each.std(axis=-1, ddof=1) / np.sqrt(count)
    # 21 numbers; the error of ratios of estimates, of the order 1 / points, is far below that of their mean
    assert np.all(np.abs(each.mean(axis=-1) - mean[1:]) < 4 * error)
    variance = np.asarray(found.sd)[1:] ** 2
    # within a filter the variance misses that of its mean, which the filters show
    whole = variance.mean(axis=-1) + each.var(axis=-1, ddof=1)
    spread = variance.std(axis=-1, ddof=1) / np.sqrt(count) + np.sqrt(2 / count) * each.var(axis=-1, ddof=1)
    assert np.all(np.abs(whole - sd[1:] ** 2) < 4 * spread)
    drawn = np.asarray(found.path)[1:]
    assert np.all(np.abs(drawn.mean(axis=-1) - mean[1:]) < 4 * sd[1:] / np.sqrt(count))
    assert np.all(np.abs(drawn.var(axis=-1, ddof=1) / sd[1:] ** 2 - 1) < 4 * np.sqrt(2 / count))
