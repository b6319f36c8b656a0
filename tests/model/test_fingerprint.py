"""Descriptions of priors and models, and fingerprints that are the same in every process."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from probsysid import Model, dist
from probsysid.model.fingerprint import describe_prior, exact_numbers, fingerprint, model_program


@pytest.mark.parametrize(
    ("prior", "expected"),
    [
        (dist.LogNormal(-12.0, 0.3), "LogNormal(loc=-12, scale=0.3)"),
        (dist.Normal(jnp.array([1.0, 2.0]), 1.0), "Normal(loc=[1., 2.], scale=[1.])"),
        (dist.TruncatedNormal(1.0, 2.0, low=0.5), "LeftTruncatedDistribution(Normal(loc=1, scale=2), low=0.5)"),
        (
            dist.MultivariateNormal(jnp.zeros(2), jnp.eye(2)),
            "MultivariateNormal(loc=[0., 0.], covariance_matrix=[[1., 0.], [0., 1.]])",
        ),
    ],
)
def test_priors_in_words(prior: Any, expected: str) -> None:
    assert describe_prior(prior) == expected


def test_models_are_distinguished_by_their_equations() -> None:
    def decay(power: int, table: list[float]) -> Model:
        values = jnp.array(table)
        return Model({"x": 1}, lambda s, u, p: {"x": -p.k * s.x**power + values[0]})

    program = model_program(decay(2, [1.0, 2.0]))
    assert model_program(decay(2, [1.0, 2.0])) == program
    assert model_program(decay(3, [1.0, 2.0])) != program
    assert model_program(decay(2, [1.0, 2.5])) != program  # an array that the equations close over


def test_fingerprints_change_with_every_part() -> None:
    parts = ["text", {"a": np.arange(3.0)}, [1.0, "b"]]
    changes = [["Text", *parts[1:]], [parts[0], {"a": np.arange(1.0, 4.0)}, parts[2]], [*parts[:2], [1.0, "c"]]]
    marks = {fingerprint(*given) for given in (parts, *changes)}
    assert len(marks) == 4
    assert fingerprint("text", {"a": np.arange(3.0)}, [1.0, "b"]) in marks


def test_numbers_of_a_prior_do_not_depend_on_their_order_in_numpyro(monkeypatch: pytest.MonkeyPatch) -> None:
    """numpyro keeps them in a set of names, whose order differs between processes."""
    given = [dist.LogNormal(-12.0, 0.3), 4.0, dist.TruncatedNormal(1.0, 2.0, low=0.5)]
    before = fingerprint(exact_numbers(given))
    for kind in (dist.LogNormal, type(given[2]), type(given[2].base_dist)):
        fields = kind.gather_pytree_data_fields()
        monkeypatch.setattr(kind, "gather_pytree_data_fields", classmethod(lambda _, fields=fields: fields[::-1]))
    assert fingerprint(exact_numbers(given)) == before
    nearly = [dist.LogNormal(-12.0, np.nextafter(0.3, 1)), *given[1:]]
    assert fingerprint(exact_numbers(nearly)) != before
