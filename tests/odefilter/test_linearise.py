"""Jacobians with structural zeros, and column colouring."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import probsysid  # noqa: F401  (double precision)
from probsysid.model.sparsity import sparsity_pattern
from probsysid.odefilter.linearise import EKF0, EKF1, colours, jacobian, jacobian_matrix


def field(x: list) -> list:
    return [x[1], -jnp.sin(x[0]) * x[2] ** 2 + jnp.abs(x[1]), 3.0 * x[2] / (1 + x[0] ** 2), jnp.asarray(1.5)]


POINT = [0.3, -0.7, 1.1]
PATTERN = sparsity_pattern(lambda *x: field(list(x)), count=3)


def test_pattern() -> None:
    assert PATTERN == (
        (False, True, False),
        (True, True, True),
        (True, False, True),
        (False, False, False),
    )


def test_jacobian_is_forward_mode_with_structural_zeros() -> None:
    rows = jacobian(field, POINT, PATTERN)
    assert [[entry is not None for entry in row] for row in rows] == [list(row) for row in PATTERN]
    found = np.array([[0.0 if entry is None else float(entry) for entry in row] for row in rows])
    expected = jax.jacfwd(lambda x: jnp.stack(field(list(x))))(jnp.array(POINT))
    np.testing.assert_array_equal(found, expected)
    # By hand, for the row with all kinds of terms.
    x, _, z = POINT
    np.testing.assert_allclose(found[1], [-np.cos(x) * z**2, -1.0, -2 * np.sin(x) * z], rtol=1e-15)


def test_first_and_zeroth_order() -> None:
    assert EKF1()(field, POINT, PATTERN) == jacobian(field, POINT, PATTERN)
    assert EKF0()(field, POINT, PATTERN) == [[None] * 3] * 4


def neighbours(x: Any) -> Any:
    """Each output depends on its own argument and the next ones; no output depends on the last argument."""
    return jnp.stack([jnp.sin(x[i]) * x[i + 1] for i in range(7)] + [x[0] ** 2])


BANDED = tuple(tuple(j in (i, i + 1) if i < 7 else j == 0 for j in range(9)) for i in range(8))


def test_few_derivatives_make_the_whole_matrix() -> None:
    """A band of two needs two derivatives, however long; a full row needs all."""
    assert max(colours(BANDED)) + 1 == 2
    assert sorted(colours(((True, True, True), (False, False, True)))) == [0, 1, 2]
    point = jnp.asarray(np.random.default_rng(0).normal(size=9))
    values, matrix = jacobian_matrix(neighbours, point, BANDED)
    np.testing.assert_array_equal(values, neighbours(point))
    np.testing.assert_allclose(matrix, jax.jacfwd(neighbours)(point), rtol=1e-15)
    assert EKF1().matrix(neighbours, point, BANDED)[1].shape == (8, 9)
    assert not np.any(EKF0().matrix(neighbours, point, BANDED)[1])
