"""Priors as data: rebuilt ones are the same distributions; classes of users are refused."""

import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from probsysid import dist
from probsysid._internal.plain_data import UnstorableError
from probsysid.model.stored_priors import PRIORS

AFFINE = dist.transforms.AffineTransform(1.0, -2.0)
LISTED = [
    dist.Normal(0, 1),
    dist.LogNormal(np.log(5e4), 0.1),
    dist.Uniform(0, 2),
    dist.LogUniform(1.0, 2.0),
    dist.TruncatedNormal(1, 0.2, low=0),
    dist.TruncatedNormal(1, 0.2, high=3),
    dist.TruncatedNormal(1, 0.2, low=0, high=3),
    dist.HalfNormal(2.0).expand([3]),
    dist.Exponential(1.0),
    dist.Gamma(2, 1),
    dist.InverseGamma(3, 1),
    dist.Beta(2, 2),
    dist.StudentT(4, 0, 1),
    dist.Laplace(0, 1),
    dist.Weibull(1.0, 2.0),
    dist.MultivariateNormal(jnp.zeros(2), jnp.array([[2.0, 0.3], [0.3, 1.0]])),
    dist.Dirichlet(jnp.ones(3)),
    dist.LKJCholesky(3, 1.0),
    dist.Normal(np.zeros(3), 1).to_event(1),
    dist.TransformedDistribution(dist.Normal(0, 1), [AFFINE, dist.transforms.ExpTransform()]),
    dist.TransformedDistribution(dist.Normal(0, 1), [AFFINE.inv]),
    dist.MixtureSameFamily(dist.Categorical(probs=jnp.ones(2) / 2), dist.Normal(jnp.array([0.0, 5.0]), 1.0)),
]


def again(value: Any) -> Any:
    return PRIORS.decode(json.loads(json.dumps(PRIORS.encode(value))))


@jax.jit
def everything(prior: dist.Distribution) -> tuple[jax.Array, ...]:
    """Draws, their density, and the way to unconstrained coordinates and back, compiled once per kind of prior."""
    draws = prior.sample(jax.random.key(0), (20,))
    transform = dist.biject_to(prior.support)
    free = transform.inv(draws)
    return draws, prior.log_prob(draws), free, transform(free)


@pytest.mark.parametrize("prior", LISTED, ids=lambda prior: type(prior).__name__)
def test_a_rebuilt_prior_is_the_same(prior: dist.Distribution) -> None:
    rebuilt = again(prior)
    assert jax.tree.structure(rebuilt) == jax.tree.structure(prior)
    for found, expected in zip(everything(rebuilt), everything(prior), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_names_and_numbers_come_with_it() -> None:
    given = {("a", "b"): LISTED[15], "c": 1.5, "d": np.array([1.0, np.inf]), "e": -0.0}
    found = again(given)
    assert list(found) == list(given) and found["c"] == 1.5 and np.signbit(found["e"])
    np.testing.assert_array_equal(found["d"], given["d"])


def test_classes_of_users_are_refused() -> None:
    class Mine(dist.Normal):
        pass

    with pytest.raises(UnstorableError, match="the class Mine is not one of numpyro"):
        PRIORS.encode({"a": Mine(0, 1)})
    with pytest.raises(UnstorableError, match="a function is not stored"):
        PRIORS.encode({"a": lambda: 1})


@pytest.mark.parametrize(
    "change",
    [
        {"class": "system"},
        {"module": "os", "class": "system"},
        {"module": "..os"},
        {"class": "Distribution.__init__"},
        {"fields": {"__class__": 1}},
        {"fields": {}},
        {"fields": {"loc": {"other": {"module": "subprocess", "class": "Popen", "fields": {}, "settings": {}}}}},
        {"settings": {"__reduce__": 1}},
        {"settings": None},
    ],
)
def test_data_that_name_anything_else_are_refused(change: dict[str, Any]) -> None:
    data = PRIORS.encode(dist.Normal(0, 1))
    with pytest.raises(UnstorableError):
        PRIORS.decode({"other": {**data["other"], **change}})
