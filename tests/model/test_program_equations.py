"""Equations read from the recorded operations of Python functions."""

import re
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import probsysid as ps
from probsysid.model.equations import Equation
from probsysid.model.model_card import equations
from probsysid.model.program_equations import UnwritableError, program_equations

NAMES = ("x", "dx", "F", "c", "k", "m")
VALUES = dict(zip(NAMES, (0.3, -0.7, 1.1, 0.2, 5.0, 2.0), strict=True))


def dynamics(x: Any, dx: Any, F: Any, c: Any, k: Any, m: Any) -> list[Any]:
    spring = jnp.where(x > 0, k * x, 2 * k * jnp.tanh(x) ** 3)
    return [(F - c * dx - spring) / m, 1.0 * jnp.sqrt(k / m) + 0.0 - jnp.abs(dx) ** 1.5 / jnp.exp(-x)]


def test_the_formulas_have_the_values_of_the_program() -> None:
    program = jax.make_jaxpr(dynamics)(*VALUES.values())
    found = program_equations(program, NAMES)
    for tree, expected in zip(found, dynamics(*VALUES.values()), strict=True):
        assert float(Equation("", tree).evaluate(VALUES)) == pytest.approx(float(expected), rel=1e-5)


def test_a_python_model_shows_mathematics() -> None:
    model = ps.Model({"h": 1}, lambda s, u, p: {"h": p.a * (p.b * u.u - s.h)}, name="lag", units={"a": "1/s"})
    page = model._repr_html_()
    assert "<math" in page and "parameters: a [1/s], b" in page
    first = re.sub(r"<[^>]+>", "", equations(model)[0])
    assert first.replace("\u2062", "") == "h˙=a(bu−h)"  # a combining dot on an h would read as a bar
    assert repr(model) == "Model('lag', coordinates: h (order 1); parameters: a, b; inputs: u; outputs: h)"


def test_arrays_and_loops_are_no_formulas() -> None:
    program = jax.make_jaxpr(lambda x: [jnp.sum(jnp.ones(3) * x)])(1.0)
    with pytest.raises(UnwritableError):
        program_equations(program, ["x"])
    model = ps.Model(
        {"x": 1}, lambda s, u, p: {"x": -p.w[0] * s.x}, lambda s, u, p: {"y": s.x}, shapes={"w": (2,)}, name="net"
    )
    assert "equations: a Python function" in model._repr_html_()


def test_expressions_that_grow_without_end_are_given_up() -> None:
    def grown(x: Any) -> list[Any]:
        for _ in range(60):
            x = x * jnp.sin(x)
        return [x]

    with pytest.raises(UnwritableError, match="more than 400 parts"):
        program_equations(jax.make_jaxpr(grown)(1.0), ["x"])
