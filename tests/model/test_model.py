"""Models: names, abstract evaluation, sparsity patterns and error messages."""

import copy
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import probsysid as ps
from probsysid._internal.errors import did_you_mean
from probsysid.model.namespaces import Namespace, RecordingNamespace, UnknownName, used_names
from probsysid.model.sparsity import sparsity_pattern


def duffing(**changes: Any) -> ps.Model:
    settings: dict[str, Any] = {
        "coordinates": {"x": 2},
        "dynamics": lambda s, u, p: {"x": (u.force - p.c * s.dx - p.k * s.x - p.k3 * s.x**3) / p.m},
        "outputs": lambda s, u, p: {"position": s.x},
    }
    return ps.Model(**(settings | changes))


# Names


def test_names_are_attributes_and_items() -> None:
    s = Namespace("state", {"x": 1.0, "dx": 2.0})
    assert (s.x, s["dx"], list(s)) == (1.0, 2.0, ["x", "dx"])
    assert "dx" in s and "y" not in s
    assert repr(s) == "<state: x, dx>"
    assert copy.copy(s).x == 1.0


def test_a_wrong_name_lists_the_right_ones() -> None:
    s = Namespace("state", {"x": 1.0, "velocity": 2.0})
    with pytest.raises(UnknownName, match=r"no state 'velocty'; known are: x, velocity\. Did you mean 'velocity'\?"):
        _ = s.velocty
    assert not hasattr(s, "y")
    with pytest.raises(ps.InputError, match="no input 'y'; known are: none"):
        _ = Namespace("input", {})["y"]


def test_names_cannot_be_assigned() -> None:
    s = Namespace("state", {"x": 1.0})
    with pytest.raises(ps.InputError, match="the state 'x' cannot be assigned to"):
        s.x = 2.0


def test_used_names_are_recorded_in_order() -> None:
    p = RecordingNamespace("parameter", {"w": 5.0}, default=1.0)
    assert (p.m, p.w, p["c"], p.m) == (1.0, 5.0, 1.0, 1.0)
    assert used_names(p) == ("m", "w", "c")


@pytest.mark.parametrize("name", ["keys", "items", "values", "get", "asked", "kind"])
def test_every_name_is_free(name: str) -> None:
    """A parameter may have the name of a method of Python's mappings."""
    model = ps.Model({"x": 1}, lambda s, u, p: {"x": -getattr(p, name) * s.x})
    assert model.parameter_names == (name,)
    assert [float(v) for v in model.highest_derivatives([2.0], [], {name: 3.0})] == [-6.0]


def test_did_you_mean_is_empty_when_nothing_is_close() -> None:
    assert did_you_mean("stifness", ["stiffness", "mass"]) == " Did you mean 'stiffness'?"
    assert did_you_mean("q", ["stiffness"]) == ""


# Names and values of a model


def test_a_model_finds_its_names() -> None:
    model = duffing(outputs=lambda s, u, p: {"position": s.x + p.offset, "acceleration": s.ddx - u.base})
    assert model.parameter_names == ("c", "k", "k3", "m", "offset")
    assert model.input_names == ("force", "base")
    assert model.output_names == ("position", "acceleration")
    assert model.physical_names == ("x", "dx")
    assert model.highest_names == ("ddx",)
    assert model.orders == (2,)


def test_mixed_orders() -> None:
    model = ps.Model({"x": 3, "z": 1}, lambda s, u, p: {"z": -s.ddx, "x": -s.z * p.a})
    assert model.physical_names == ("x", "dx", "ddx", "z")
    assert model.highest_names == ("dddx", "dz")
    assert model.output_names == ("x", "z")  # by default every coordinate itself
    # In the order of the coordinates, whatever the dictionary's.
    assert [float(v) for v in model.highest_derivatives([1.0, 2.0, 3.0, 4.0], [], {"a": 2.0})] == [-8.0, -3.0]


def test_evaluation() -> None:
    model = duffing(outputs=lambda s, u, p: {"a": s.ddx, "f": u.force, "x": 2 * s.x + s.dx})
    parameters = {"m": 2.0, "c": 0.5, "k": 3.0, "k3": 4.0}
    (acceleration,) = model.highest_derivatives([0.5, -1.0], [10.0], parameters)
    # All numbers are multiples of 1/16: exact in floating point.
    assert float(acceleration) == (10 + 0.5 - 1.5 - 4 * 0.125) / 2
    assert [float(v) for v in model.measured([0.5, -1.0], [7.0], [10.0], parameters)] == [7.0, 10.0, 0.0]


def test_parameters_may_be_arrays() -> None:
    model = ps.Model(
        {"x": 1}, lambda s, u, p: {"x": jnp.dot(p.weights, jnp.stack([s.x, s.x**2]))}, shapes={"weights": (2,)}
    )
    assert model.parameter_names == ("weights",)
    (value,) = model.highest_derivatives([2.0], [], {"weights": jnp.array([1.0, 3.0])})
    assert float(value) == 14.0
    assert model.dynamics_sparsity == ((True,),)


def test_numbers_may_be_whole_or_constant() -> None:
    model = ps.Model({"x": 1, "n": 1}, lambda s, u, p: {"x": 1, "n": jnp.where(s.x > 0, 1, 2)})
    assert [v.dtype for v in model.highest_derivatives([1.0, 0.0], [], {})] == [float, float]


def test_abstract_evaluation_computes_nothing() -> None:
    """The functions are called with tracers only, never with numbers."""
    seen = []

    def dynamics(s: Any, u: Any, p: Any) -> dict[str, Any]:
        seen.append(s.x)
        return {"x": -s.x}

    model = ps.Model({"x": 1}, dynamics)
    _ = model.dynamics_sparsity
    assert seen and all(isinstance(x, jax.core.Tracer) for x in seen)


# Sparsity


def test_sparsity_of_a_model() -> None:
    model = ps.Model(
        {"x": 2, "z": 1},
        lambda s, u, p: {"x": u.force - s.x - s.z, "z": p.a * s.dx + jnp.abs(s.z)},
        lambda s, u, p: {"acceleration": s.ddx, "mix": s.x * s.dz, "input": u.force},
    )
    assert model.dynamics_sparsity == ((True, False, True), (False, True, True))
    # Columns: x, dx, z, ddx, dz.
    assert model.outputs_sparsity == (
        (False, False, False, True, False),
        (True, False, False, False, True),
        (False, False, False, False, False),
    )


@jax.custom_jvp
def _squared(x: Any) -> Any:
    return x * x


_squared.defjvp(lambda primals, tangents: (_squared(primals[0]), 2 * primals[0] * tangents[0]))


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x, y: [x, y], ((True, False), (False, True))),
        (lambda x, y: [x * 0 + y, 2.0], ((True, True), (False, False))),
        (lambda x, y: [jax.jit(lambda a, b: (b, a))(x, y)[0]], ((False, True),)),  # through a call, not across it
        (lambda x, y: [_squared(x), jax.nn.relu(y)], ((True, False), (False, True))),
        (lambda x, y: [jnp.where(x > 0, y, 1.0)], ((True, True),)),
        (lambda x, y: list(jax.lax.cond(x > 0, lambda a, b: (a, b), lambda a, b: (b, a), x, y)), ((True, True),) * 2),
        # The program of a loop is not entered: all its results may depend on all its arguments.
        (lambda x, y: [jax.lax.fori_loop(0, 3, lambda i, v: v * x, 1.0), y], ((True, False), (False, True))),
        (lambda x, y: [jnp.stack([x, y])[0]], ((True, True),)),
    ],
)
def test_sparsity_of_functions(function: Any, expected: Any) -> None:
    assert sparsity_pattern(function, count=2) == expected


def test_sparsity_ignores_fixed_arguments() -> None:
    number = jax.ShapeDtypeStruct((), float)
    found = sparsity_pattern(lambda p, u, x, y: [p["a"] * y + u[0]], {"a": number}, [number], count=2)
    assert found == ((False, True),)


# Errors name what is wrong and what to do


def wrong(message: str, **changes: Any) -> Any:
    return pytest.param(changes, message, id=message[:40])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        wrong(r"coordinates is empty; name at least one, such as \{'x': 2\}", coordinates={}),
        wrong(r"coordinate name 'my x' is not a valid Python name", coordinates={"my x": 2}),
        wrong(r"coordinate name 'lambda' is not a valid Python name", coordinates={"lambda": 2}),
        wrong(r"coordinate 'x' has order 0; it must be a whole number from 1 to 8", coordinates={"x": 0}),
        wrong(r"coordinate 'x' has order 2\.0", coordinates={"x": 2.0}),
        wrong(r"coordinate 'x' has order True", coordinates={"x": True}),
        wrong(r"'x' and 'dx' both have a component called 'dx'", coordinates={"x": 2, "dx": 1}),
        wrong(r"dynamics must be a function of \(s, u, p\), not dict", dynamics={"x": 1}),
        wrong(r"outputs must be a function of \(s, u, p\), not str", outputs="position"),
        wrong(
            r"dynamics must return a dictionary by name, such as .*; it returned .*Tracer", dynamics=lambda s, u, p: s.x
        ),
        wrong(r"dynamics returned a dictionary that has no entry for 'x'", dynamics=lambda s, u, p: {}),
        wrong(
            r"has no entry for 'x' and has 'y', not a coordinate; coordinates are: x",
            dynamics=lambda s, u, p: {"y": s.x},
        ),
        wrong(r"dynamics returned shape \(2,\) for 'x'", dynamics=lambda s, u, p: {"x": jnp.ones(2) * s.x}),
        wrong(r"dynamics returned a complex number for 'x'", dynamics=lambda s, u, p: {"x": 1j * s.x}),
        wrong(r"dynamics returned str for 'x'; it must be a number", dynamics=lambda s, u, p: {"x": "fast"}),
        wrong(
            r"^dynamics: there is no state 'ddx'; known are: x, dx", dynamics=lambda s, u, p: {"x": s.ddx}
        ),  # only outputs may use the highest derivative
        wrong(r"^outputs: there is no state 'z'; known are: x, dx, ddx", outputs=lambda s, u, p: {"y": s.z}),
        wrong(r"outputs returned no output; return at least one", outputs=lambda s, u, p: {}),
        wrong(r"outputs returned shape \(3,\) for 'y'", outputs=lambda s, u, p: {"y": jnp.zeros(3)}),
        wrong(
            r"dynamics needs the value of a variable .*use jax\.numpy functions, and jnp\.where in place of if",
            dynamics=lambda s, u, p: {"x": -s.x if s.x > 0 else s.x},
        ),
        wrong(r"dynamics needs the value of a variable", dynamics=lambda s, u, p: {"x": float(s.x)}),
    ],
)
def test_a_wrong_model_is_refused_at_construction(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ps.InputError, match=message):
        duffing(**changes)


def test_parameters_and_inputs_are_checked_by_name() -> None:
    model = duffing(name="Duffing oscillator")
    model.check_parameters(["m", "k", "c", "k3"])
    with pytest.raises(
        ps.InputError, match=r"priors has no entry for the parameter 'k3' that the Duffing oscillator uses"
    ):
        model.check_parameters(["m", "k", "c"])
    with pytest.raises(
        ps.InputError, match=r"parameters has an entry 'mass', which the Duffing oscillator does not use"
    ):
        model.check_parameters(["m", "k", "c", "k3", "mass"], where="parameters")
    model.check_inputs(["temperature", "force"])
    with pytest.raises(
        ps.InputError, match=r"uses the input 'force', the record's inputs are: Force\. Did you mean 'Force'\?"
    ):
        model.check_inputs(["Force"])
    with pytest.raises(ps.InputError, match=r"the record's inputs are: none"):
        model.check_inputs([])
