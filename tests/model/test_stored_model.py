"""Models as data: rebuilt ones compute the same, also their derivatives, and what is code is left out."""

import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import probsysid as ps
from probsysid._internal.plain_data import UnstorableError
from probsysid.model.equations import parse
from probsysid.model.model_equations import ModelEquations
from probsysid.model.stored_model import check_same_names, decode_model, encode_model, left_out
from probsysid.model.stored_program import decode_program
from tests import duffing


def hysteresis(s: Any, u: Any, p: Any) -> dict[str, Any]:
    force = jnp.where(s.x > 0, s.x**2, -(jnp.abs(s.x) ** p.n)) * p.b
    coupled = p.w @ jnp.stack([s.x, s.dx]) + jnp.sum(p.w[:1] * s.z) + jnp.heaviside(s.x, 0.5)
    return {"x": u.f - force - coupled, "z": jnp.clip(u.f * s.z, -1, 1) + jnp.tanh(s.dx) + jnp.arctan2(s.x, 1.0)}


ARRAYS = ps.Model(
    {"x": 2, "z": 1},
    hysteresis,
    lambda s, u, p: {"v": s.dx, "a": s.ddx + p.offset},
    shapes={"w": (2,)},
    units={"b": "N"},
    name="arrays",
)
TEXT = ModelEquations({"x": 2}, {"x": parse("(f - c*dx - k*x**3)/m")}, {"y": parse("where(x > 0, x, sin(x))")}, ("f",))
WRITTEN = ps.Model(TEXT.coordinates, TEXT.dynamics, TEXT.measured, name="written")


def again(model: ps.Model) -> ps.Model:
    return decode_model(json.loads(json.dumps(encode_model(model))))


@pytest.mark.parametrize("model", [duffing.model, ARRAYS, WRITTEN], ids=lambda model: model.name)
def test_a_rebuilt_model_is_the_same(model: ps.Model) -> None:
    rebuilt = again(model)
    for name in ("name", "coordinates", "shapes", "units", "parameter_names", "input_names", "output_names"):
        assert getattr(rebuilt, name) == getattr(model, name)
    assert rebuilt.dynamics_sparsity == model.dynamics_sparsity
    random = np.random.default_rng(0)
    state, inputs = random.standard_normal(len(model.physical_names)), random.standard_normal(len(model.input_names))
    parameters = {n: random.uniform(1, 2, model.shapes.get(n, ())) for n in model.parameter_names}
    highest = random.standard_normal(len(model.highest_names))

    def values(m: ps.Model, at: Any) -> Any:
        return m.highest_derivatives(list(at), inputs, parameters), m.measured(list(at), highest, inputs, parameters)

    for evaluate in (values, lambda m, at: jax.jvp(lambda x: values(m, x), (at,), (jnp.ones_like(at),))):
        for one, other in zip(*(jax.tree.leaves(evaluate(m, state)) for m in (model, rebuilt)), strict=True):
            np.testing.assert_array_equal(one, other)


def test_what_is_code_is_left_out_with_the_reason() -> None:
    loop = ps.Model({"x": 1}, lambda s, u, p: {"x": jax.lax.fori_loop(0, 3, lambda i, x: -p.a * x, s.x)})
    data = encode_model(loop)
    assert left_out(data) == "the operation scan is not stored" or "while" in left_out(data)
    with pytest.raises(ps.InputError, match="it was saved without its model, since the operation"):
        decode_model(data)
    derivative = ps.Model({"x": 1}, lambda s, u, p: {"x": jnp.logaddexp(s.x, 1.0)})  # has a derivative of its own
    assert "custom_jvp_call" in left_out(encode_model(derivative))


def test_another_model_in_its_place_is_refused() -> None:
    data = encode_model(duffing.model)
    check_same_names(data, duffing.model)
    with pytest.raises(ps.InputError, match=r"has the parameters \['c', 'k', 'm'\]; the one that was saved"):
        check_same_names(data, WRITTEN)


@pytest.mark.parametrize(
    "program",
    [
        None,
        {},
        {"inputs": 1, "results": [0], "steps": [["eval", {}, [0], [1]]]},
        {"inputs": 1, "results": [0], "steps": [["custom_call", {}, [0], [1]]]},
        {"inputs": 1, "results": [0], "steps": [["add", {"f": {"value": {"other": "os.system"}}}, [0], [1]]]},
        {"inputs": 1, "results": [{"constant": {"object": "Path", "fields": {}}}], "steps": []},
        {
            "inputs": 1,
            "results": [{"constant": {"array": "numpy", "type": "O", "shape": [], "values": [1]}}],
            "steps": [],
        },
        {"inputs": "many", "results": [], "steps": []},
    ],
)
def test_programs_that_are_not_ours_are_refused(program: Any) -> None:
    with pytest.raises(UnstorableError):
        decode_program(program)


def test_a_stored_program_cannot_fill_the_memory() -> None:
    shape = {"value": {"tuple": [10**6, 10**6]}}
    parameters = {"shape": shape, "broadcast_dimensions": {"value": {"tuple": []}}, "sharding": {"value": None}}
    program = decode_program({"inputs": 1, "results": [1], "steps": [["broadcast_in_dim", parameters, [0], [1]]]})
    with pytest.raises(UnstorableError, match="more than 1000000 numbers"):
        jax.eval_shape(lambda x: program([x]), 1.0)
