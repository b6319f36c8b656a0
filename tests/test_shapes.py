"""The check of shapes in signatures that conftest.py installs: it can fail, and only for arrays."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float, Int

from probsysid._internal.array_types import Numbers
from probsysid._internal.statistics import log_sum_exp
from tests.shapes import ShapeError
from tests.shapes import checked as check

Matrix = Float[np.ndarray, "row column"]


class Pair(NamedTuple):
    matrix: Matrix
    label: str
    total: Float[np.ndarray, ""]


@check
@dataclass(frozen=True)
class Sized:
    matrix: Matrix
    rows: Float[np.ndarray, " row"]


@check
def product(matrix: Matrix, vector: Float[np.ndarray, " column"]) -> Float[np.ndarray, " row"]:
    return matrix @ vector


@check
def returned(value: Any) -> Matrix:
    return value


def test_right_shapes_pass() -> None:
    assert product(np.ones((2, 3)), np.ones(3)).tolist() == [3.0, 3.0]
    assert Sized(np.ones((2, 3)), rows=np.ones(2)).rows.shape == (2,)


@pytest.mark.parametrize(
    "arguments",
    [
        (np.ones((2, 3)), np.ones(2)),  # an axis name with two sizes
        (np.ones(3), np.ones(3)),  # too few axes
        (np.ones((2, 3, 1)), np.ones(3)),  # too many
        (np.ones((2, 3), int), np.ones(3)),  # another dtype
        (jnp.ones((2, 3)), np.ones(3)),  # another kind of array
        ([[1.0, 2.0]], np.ones(2)),  # no array
        (None, np.ones(3)),
    ],
)
def test_wrong_arguments_are_caught(arguments: tuple[Any, Any]) -> None:
    with pytest.raises(ShapeError, match="product"):
        product(*arguments)


def test_wrong_results_are_caught() -> None:
    with pytest.raises(ShapeError, match="the result"):
        returned(np.ones(3))

    @check
    def transposed(matrix: Matrix) -> Matrix:
        return matrix.T

    assert transposed(np.ones((2, 2))).shape == (2, 2)
    with pytest.raises(ShapeError, match="the result"):
        transposed(np.ones((2, 3)))


def test_sizes_of_fixed_axes_are_checked() -> None:
    @check
    def last(totals: Float[np.ndarray, "2 particle"]) -> Float[np.ndarray, " particle"]:
        return totals[-1]

    assert last(np.ones((2, 5))).shape == (5,)
    with pytest.raises(ShapeError):
        last(np.ones((3, 5)))


def test_dataclasses_are_checked() -> None:
    with pytest.raises(ShapeError, match="rows"):
        Sized(np.ones((2, 3)), np.ones(3))


def test_axis_names_belong_to_one_call() -> None:
    product(np.ones((2, 3)), np.ones(3))
    product(np.ones((4, 5)), np.ones(5))


def test_every_item_of_a_container_is_checked() -> None:
    @check
    def count(
        listed: Sequence[Matrix] = (), named: Mapping[str, Matrix] | None = None, several: tuple[Matrix, ...] = ()
    ) -> int:
        return len(listed) + len(named or {}) + len(several)

    good, bad = np.ones((2, 3)), np.ones((2, 4))
    assert count([good, good], {"a": good}, (good,)) == 4
    for wrong in ({"listed": [good] * 20 + [bad]}, {"named": {"a": good, "b": bad}}, {"several": (good, bad)}):
        with pytest.raises(ShapeError):
            count(**wrong)


def test_further_arguments_are_checked_one_by_one() -> None:
    @check
    def count(*listed: Matrix, **named: Matrix) -> int:
        return len(listed) + len(named)

    good, bad = np.ones((2, 3)), np.ones((2, 4))
    assert count(good, good, more=good) == 3
    with pytest.raises(ShapeError):
        count(good, bad)
    with pytest.raises(ShapeError):
        count(good, more=bad)


def test_numpy_scalars_are_arrays_of_shape_empty() -> None:
    @check
    def total(values: Float[np.ndarray, " n"]) -> tuple[Float[np.ndarray, ""], int]:
        return np.sum(values), len(values)

    @check
    def pair(matrix: np.ndarray, total: Any) -> Pair:
        return Pair(matrix, "a", total)

    assert total(np.ones(3)) == (3.0, 3)
    assert pair(np.ones((2, 3)), np.float64(1.0)).total == 1
    with pytest.raises(ShapeError):
        pair(np.ones((2, 3)), np.int64(1))
    with pytest.raises(ShapeError):
        pair(np.ones((2, 3)), 1.0)
    with pytest.raises(ShapeError):
        pair(np.ones(3), np.float64(1.0))


def test_axis_names_of_a_named_tuple_are_its_own() -> None:
    @check
    def rows(pair: Pair, weights: Float[np.ndarray, " row"]) -> int:
        return len(pair.matrix) + len(weights)

    assert rows(Pair(np.ones((2, 3)), "a", np.array(0.0)), np.ones(5)) == 7


def test_alternatives_without_arrays() -> None:
    @check
    def size(value: Matrix | float | None) -> int:
        return np.size(value)

    assert [size(value) for value in (np.ones((2, 3)), 1.0, 1, None)] == [6, 1, 1, 1]
    for wrong in (np.ones(3), "text"):
        with pytest.raises(ShapeError):
            size(wrong)


def test_hints_without_arrays_are_left_alone() -> None:
    @check
    def anything(number: int, function: Callable[[Matrix], Matrix], array: np.ndarray, *rest: str) -> str:
        return number

    assert anything("text", None, [1], 2) == "text"


def test_traced_and_device_arrays() -> None:
    @check
    def scaled(factor: Float[Array, ""], values: Float[Numbers, " n"], at: Int[Numbers, ""]) -> Float[Array, " n"]:
        return factor * jnp.asarray(values).at[at].set(0.0)

    assert scaled(jnp.array(2.0), np.ones(3), np.array(0)).shape == (3,)
    assert jax.jit(scaled)(2.0, jnp.ones(3), 0).tolist() == [0.0, 2.0, 2.0]
    # the signature is that of one particle
    batched = jax.vmap(scaled, in_axes=(0, None, None))(jnp.ones(4), jnp.ones(3), np.array(0))
    assert batched.shape == (4, 3)
    with pytest.raises(ShapeError):
        jax.jit(scaled)(jnp.ones(2), jnp.ones(3), 0)


def test_the_package_is_checked() -> None:
    with pytest.raises(ShapeError, match="log_sum_exp"):
        log_sum_exp(np.ones(3, int))
