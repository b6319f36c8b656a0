"""Fingerprints are the same in every process."""

import numpy as np
import pytest

from probsysid import dist
from probsysid.model.fingerprint import exact_numbers, fingerprint


def test_numbers_of_a_prior_do_not_depend_on_the_order_that_numpyro_has_them_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It keeps them in a set of names, whose order is another one in every process."""
    given = [dist.LogNormal(-12.0, 0.3), 4.0, dist.TruncatedNormal(1.0, 2.0, low=0.5)]
    before = fingerprint(exact_numbers(given))
    for kind in (dist.LogNormal, type(given[2]), type(given[2].base_dist)):
        fields = kind.gather_pytree_data_fields()
        monkeypatch.setattr(kind, "gather_pytree_data_fields", classmethod(lambda _, fields=fields: fields[::-1]))
    assert fingerprint(exact_numbers(given)) == before
    nearly = [dist.LogNormal(-12.0, np.nextafter(0.3, 1)), *given[1:]]
    assert fingerprint(exact_numbers(nearly)) != before
