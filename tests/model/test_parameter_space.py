"""Priors in unconstrained coordinates: Jacobians, names, shared compiled functions and refused priors."""

import subprocess
import sys
from typing import Any

import cloudpickle
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from probsysid import InputError, dist
from probsysid.model.parameter_space import ParameterSpace

COVARIANCE = np.array([[1.0, 0.6, 0.0], [0.6, 0.8, -0.2], [0.0, -0.2, 0.5]])

SINGLE = {
    "real": dist.Normal(1.0, 2.0),
    "positive": dist.LogNormal(-1.0, 0.7),
    "gamma": dist.Gamma(2.5, 3.0),
    "half": dist.HalfNormal(0.3),
    "bounded": dist.Uniform(-2.0, 5.0),
    "unit": dist.Beta(2.0, 3.0),
    "truncated left": dist.TruncatedNormal(0.05, 0.05, low=0.0),
    "truncated right": dist.TruncatedNormal(0.0, 1.0, high=0.5),
    "truncated both": dist.TruncatedNormal(1.0, 2.0, low=0.0, high=3.0),
    "student": dist.StudentT(3.0, 0.0, 1.0),
}
SUPPORT = {"positive": (0, None), "gamma": (0, None), "half": (0, None), "bounded": (-2, 5), "unit": (0, 1)}
LONG = ("gamma", "half", "truncated right", "truncated both", "student")
SUPPORT |= {"truncated left": (0, None), "truncated right": (None, 0.5), "truncated both": (0, 3)}


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.long] * (n in LONG)) for n in SINGLE])
def test_density_is_that_of_the_change_of_variables(name: str) -> None:
    """Compared with a numerical derivative; and the density integrates to one."""
    prior = SINGLE[name]
    space = ParameterSpace.from_priors({"x": prior})

    def value(free: np.ndarray) -> np.ndarray:
        return np.asarray(space.values(jnp.asarray(free)[None])["x"])

    def log_density(free: Any) -> np.ndarray:
        return np.asarray(space.log_prior(jnp.atleast_1d(jnp.asarray(free))[None]))

    free, step = np.linspace(-2.5, 2.5, 21), 1e-5
    slope = (value(free + step) - value(free - step)) / (2 * step)
    expected = np.asarray(prior.log_prob(value(free))) + np.log(np.abs(slope))
    # Central differences: rounding 1e-16 / 1e-5 and the square of the step, relative to slopes down to 1e-2.
    np.testing.assert_allclose(log_density(free), expected, atol=1e-7)
    grid = np.linspace(-60, 60, 60_001)
    total = integrate.simpson(np.exp(log_density(grid)), x=grid)
    # The tails beyond 60 are below rounding, except that a Student-t with 3 degrees of freedom has 1e-5 of its mass
    # there; Simpson's error on a smooth density with steps of 2e-3 is of order (2e-3)^4 = 2e-11.
    assert total == pytest.approx(1, abs=1e-4 if name == "student" else 1e-8)


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.long] * (n in LONG)) for n in SINGLE])
def test_draws_follow_the_prior_and_its_constraints(name: str) -> None:
    space = ParameterSpace.from_priors({"x": SINGLE[name]})
    count = 20_000
    theta = space.sample(jax.random.key(0), count)
    assert theta.shape == (1, count)
    values = np.asarray(space.values(theta)["x"])
    low, high = SUPPORT.get(name, (None, None))
    assert low is None or values.min() > low
    assert high is None or values.max() < high
    direct = np.asarray(SINGLE[name].sample(jax.random.key(1), (count,)))
    assert stats.ks_2samp(values, direct).pvalue > 1e-3  # false alarms: 1 in 1000, settled by the seed
    # Far out in unconstrained coordinates the constraint still holds, up to rounding onto the bound.
    far = np.asarray(space.values(jnp.array([[-30.0, 30.0]]))["x"])
    assert low is None or np.all(far >= low)
    assert high is None or np.all(far <= high)


JOINT = ParameterSpace.from_priors(
    {
        "k": dist.LogNormal(0.0, 1.0),
        ("a", "b", "c"): dist.MultivariateNormal(jnp.array([1.0, 2.0, 3.0]), COVARIANCE),
        "weights": dist.Dirichlet(jnp.ones(4)),
        "shape": dist.Normal(jnp.zeros((2, 3)), 1.0),
    }
)


@pytest.fixture(scope="module")
def theta() -> np.ndarray:
    return np.asarray(JOINT.sample(jax.random.key(0), 20_000))


def test_layout_of_joint_and_vector_sites(theta: np.ndarray) -> None:
    assert JOINT.names == ("k", "a", "b", "c", "weights", "shape")
    # A Dirichlet distribution of 4 shares has 3 unconstrained coordinates.
    assert [site.size for site in JOINT.sites] == [1, 3, 3, 6]
    assert [site.start for site in JOINT.sites] == [0, 1, 4, 7]
    assert JOINT.dimension == len(theta) == 13
    values = JOINT.values(theta)
    count = theta.shape[1]
    shapes = {"k": (), "a": (), "b": (), "c": (), "weights": (4,), "shape": (2, 3)}
    assert {name: v.shape for name, v in values.items()} == {name: (*s, count) for name, s in shapes.items()}
    np.testing.assert_allclose(values["weights"].sum(axis=0), 1, rtol=1e-12)
    # The standard error of a correlation r is (1 - r^2) / sqrt(n).
    found, exact = np.corrcoef([values["a"], values["b"]])[0, 1], 0.6 / np.sqrt(0.8)
    assert abs(found - exact) < 4 * (1 - exact**2) / np.sqrt(count)


def test_joint_density(theta: np.ndarray) -> None:
    """A Gaussian, and a Dirichlet distribution whose density on the simplex is constant: 3! for four ones."""
    values = JOINT.values(theta)
    stacked = np.stack([values[name] for name in "abc"], axis=-1)
    gaussian = stats.multivariate_normal([1, 2, 3], COVARIANCE).logpdf(stacked)
    site = JOINT.sites[1]
    found = jax.jit(jax.vmap(site.log_density, in_axes=-1))(theta)
    np.testing.assert_allclose(found, gaussian, rtol=1e-9, atol=1e-9)
    simplex = JOINT.sites[2]
    part = theta[simplex.start : simplex.start + 3, 0]
    slopes = jax.jacfwd(lambda free: simplex.transform(free)[:3])(part)
    expected = np.log(6) + np.linalg.slogdet(slopes)[1]
    np.testing.assert_allclose(simplex.log_density(theta[:, 0]), expected, rtol=1e-9)
    total = sum(jax.jit(jax.vmap(s.log_density, in_axes=-1))(theta) for s in JOINT.sites)
    np.testing.assert_allclose(JOINT.log_prior(theta), total, rtol=1e-10)


TURNED = {
    "times -1, domain given": dist.TransformedDistribution(
        dist.LogNormal(0.0, 0.2), dist.transforms.AffineTransform(0.0, -1.0, domain=dist.constraints.positive)
    ),
    "times -1": dist.TransformedDistribution(
        dist.Normal(0.0, 0.2), [dist.transforms.ExpTransform(), dist.transforms.AffineTransform(0.0, -1.0)]
    ),
    "to the power of -2": dist.TransformedDistribution(dist.Gamma(2.0, 3.0), dist.transforms.PowerTransform(-2.0)),
}


@pytest.mark.parametrize("name", TURNED)
def test_transforms_that_reverse_a_prior(name: str) -> None:
    """Their codomain depends on their numbers, which shared compiled functions do not know while they are traced."""
    space = ParameterSpace.from_priors({"a": TURNED[name], "b": dist.LogNormal(0.0, 1.0)})
    theta = np.asarray(space.sample(jax.random.key(0), 4))
    np.testing.assert_allclose(space.values(theta)["a"], jax.vmap(space.sites[0].value, in_axes=-1)(theta), rtol=1e-12)
    expected = sum(jax.vmap(site.log_density, in_axes=-1)(theta) for site in space.sites)
    assert np.all(np.isfinite(expected))
    np.testing.assert_allclose(space.log_prior(theta), expected, rtol=1e-9)


def test_a_pickled_space_works_in_another_process() -> None:
    """Nothing that belongs to this process, such as compiled functions or hashes, is pickled."""
    space = ParameterSpace.from_priors({"a": dist.LogNormal(0.5, 1.0)})
    theta = np.array([[0.3, -0.2]])
    expected = np.asarray(space.log_prior(theta))
    script = (
        "import sys, cloudpickle, numpy as np; space = cloudpickle.loads(sys.stdin.buffer.read());"
        "print(*np.asarray(space.log_prior(np.array([[0.3, -0.2]]))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], input=cloudpickle.dumps(space), capture_output=True, check=True
    )
    np.testing.assert_allclose([float(word) for word in done.stdout.split()], expected, rtol=1e-12)


def space_of(scale: float) -> ParameterSpace:
    return ParameterSpace.from_priors({"a": dist.TruncatedNormal(scale, 1.0, low=0.0), "b": dist.Uniform(0.0, scale)})


def test_spaces_of_one_kind_share_compiled_functions() -> None:
    theta = np.array([[0.3, -0.2], [1.0, 2.0]])
    traced = []

    def density(space: ParameterSpace, theta: Any) -> Any:
        traced.append(space.names)
        return jax.vmap(space.log_prior_of_one, in_axes=-1)(theta)

    for scale in (1.0, 2.0, 3.0):
        space = space_of(scale)
        apart = sum(np.asarray(jax.vmap(site.log_density, in_axes=-1)(theta)) for site in space.sites)
        np.testing.assert_allclose(space.program(density)(theta), apart, rtol=1e-12)
        np.testing.assert_allclose(space.log_prior(theta), apart, rtol=1e-12)
        # The logistic function of the second coordinate, times the width of the prior.
        np.testing.assert_allclose(space.values(theta)["b"], scale / (1 + np.exp(-theta[1])), rtol=1e-12)
    assert traced == [("a", "b")]
    renamed = ParameterSpace.from_priors({name: site.prior for name, site in zip("cd", space.sites, strict=True)})
    renamed.program(density)(theta)
    assert traced == [("a", "b"), ("c", "d")]


class Shifted(dist.Normal):
    """A prior with a number in an attribute that JAX does not see."""

    def __init__(self, shift: float):
        super().__init__(0.0, 1.0)
        self.shift = shift

    def log_prob(self, value: Any, intermediates: Any = None) -> Any:
        return super().log_prob(value - self.shift)


def test_a_prior_defined_by_the_user() -> None:
    for shift in (1.0, 2.0):
        for prior in (
            Shifted(shift),
            dist.TransformedDistribution(Shifted(shift), dist.transforms.AffineTransform(0.0, 1.0)),
        ):
            found = ParameterSpace.from_priors({"x": prior}).log_prior(np.array([[0.5]]))
            np.testing.assert_allclose(found, stats.norm.logpdf(0.5, loc=shift), rtol=1e-12)


def test_a_program_that_crashes_under_multi_output_fusion() -> None:
    """XLA's fusion of several outputs, which the filter needs, ends the process when it compiles this one."""
    space = ParameterSpace.from_priors({"correlation": dist.LKJCholesky(3, 1.0)})
    theta = np.full((space.dimension, 2), 0.3)
    apart = jax.jit(jax.vmap(space.sites[0].log_density, in_axes=-1))(theta)
    np.testing.assert_allclose(space.log_prior(theta), apart, rtol=1e-12)


@pytest.mark.parametrize(
    ("priors", "message"),
    [
        ({"k": 3.0}, r"the prior of 'k' is 3\.0; it must be a distribution"),
        ({"k": dist.Poisson(3.0)}, r"the prior of 'k' is discrete \(Poisson\)"),
        ({"k": dist.Normal(np.inf, 1.0, validate_args=False)}, "the prior of 'k' has loc = inf; it must be finite"),
        ({"k": dist.Normal(0.0, np.inf, validate_args=False)}, "the prior of 'k' has scale = inf; it must be finite"),
        ({("a", "b"): dist.Normal(0.0, 1.0)}, r"joint prior of \('a', 'b'\) has shape \(\); it must be \(2,\)"),
        ({"a": dist.Normal(0.0, 1.0), ("a", "b"): dist.Normal(np.zeros(2), 1.0)}, "'a' has two priors"),
    ],
)
def test_refused(priors: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ParameterSpace.from_priors(priors)
