"""Filters as keys of caches: equal fields, equal programs; another class or another field, another program."""

from dataclasses import fields, replace

import pytest

import probsysid as ps
from probsysid.model.model import Model
from probsysid.odefilter.arrays.batched import Batched
from probsysid.odefilter.arrays.lapack import Lapack
from probsysid.odefilter.arrays.step import ArrayFilter, as_array_filter
from probsysid.odefilter.ode_filter import ODEFilter
from probsysid.odefilter.unrolled.step import UnrolledFilter

MODEL = Model({"x": 2}, lambda s, u, p: {"x": -s.x})


def test_equal_fields_are_one_key() -> None:
    first, second = (ps.Solver(smoothness=3).ode_filter(MODEL) for _ in range(2))
    assert first is not second
    assert len({first, second}) == 1
    assert len({as_array_filter(first), as_array_filter(second)}) == 1
    assert len({replace(as_array_filter(first), algebra=Lapack()) for _ in range(2)}) == 1


def test_the_two_forms_of_one_filter_are_two_keys() -> None:
    unrolled = ps.Solver(smoothness=3).ode_filter(MODEL)
    arrays = as_array_filter(unrolled)
    assert (type(unrolled), type(arrays)) == (UnrolledFilter, ArrayFilter)
    assert all(getattr(arrays, field.name) == getattr(unrolled, field.name) for field in fields(unrolled))
    assert len({unrolled, arrays}) == 2


@pytest.mark.parametrize(
    "change", [{"ode_noise": 0.1}, {"joint": False}, {"restarts": True}, {"linearisation": ps.EKF0()}]
)
def test_another_field_is_another_key(change: dict[str, object]) -> None:
    ode_filter = ps.Solver(smoothness=3).ode_filter(MODEL)
    assert replace(ode_filter, **change) != ode_filter


def test_another_algebra_is_another_key() -> None:
    arrays = as_array_filter(ps.Solver(smoothness=3).ode_filter(MODEL))
    assert len({arrays, *(replace(arrays, algebra=algebra) for algebra in (Batched(), Lapack()))}) == 3


def test_the_interface_has_no_instances() -> None:
    solver = ps.Solver(smoothness=3)
    with pytest.raises(TypeError, match="abstract"):
        ODEFilter(MODEL, solver.layout(MODEL), ps.EKF1(), ps.QuasiMLE())  # type: ignore[abstract]
