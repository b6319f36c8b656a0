"""Units of both sides of equations, where they are given."""

from pathlib import Path

import pytest

from probsysid.model.equations import parse
from probsysid.model.model_equations import ModelEquations
from probsysid.study.unit_check import unit_findings, unit_of_text
from tests.study.shell import call
from tests.study.small import STUDY, write_study

UNITS = {"x": "m", "force": "N", "m": "kg", "c": "N s/m", "k": "N/m", "k3": "N/m^3", "y": "m", "angle": "rad"}


def found(equation: str, output: str = "x", **units: str) -> list[str]:
    formulas = ModelEquations({"x": 2}, {"x": parse(equation)}, {"y": parse(output)}, ("force",))
    return unit_findings(formulas, {**UNITS, **units})


@pytest.mark.parametrize(
    "equation",
    [
        "(force - c*dx - k*x - k3*x**3)/m",
        "(force - 2*c*dx - max(k*x, 1e-6))/m",
        "(force - c*abs(dx) - sign(dx)*k*abs(x))/m",
        "force/m*sin(angle) + where(x > 0, k*x/m, 0)",
        "(force - unknown*x)/m",
        "sqrt((force/m)**2)",
        "0.001*force/m*cos(k*x/force)",
    ],
)
def test_equations_that_are_right(equation: str) -> None:
    assert found(equation) == []


@pytest.mark.parametrize(
    ("equation", "message"),
    [
        ("force - c*dx - k*x", "the equation of x: the left side is in m s^-2, the right side in kg m s^-2"),
        ("(force - c*x)/m", "the equation of x: force - c*x adds or compares kg m s^-2 and kg m s^-1"),
        ("force/m*sin(x)", "the equation of x: sin is taken of x, which is in m"),
        ("(force - min(k, k3))/m", "min(k, k3) adds or compares kg s^-2 and kg m^-2 s^-2"),
    ],
)
def test_sides_and_terms_that_differ(equation: str, message: str) -> None:
    (sentence, *_) = found(equation)
    assert message in sentence


def test_the_size_of_units_counts() -> None:
    (sentence,) = found("(force - c*dx - k*x)/m", m="g")
    assert sentence == "the equation of x: the left side is in m s^-2, the right side in 1000 m s^-2"
    (sentence,) = found("(force - c*dx - k*x)/m", y="mm")
    assert sentence == "the output y: the left side is in 0.001 m, the right side in m"
    assert found("(force - c*dx - k*x)/m", "1000*x", y="mm") == []  # a number may convert


def test_units_that_are_not_known_are_named() -> None:
    assert found("(force - c*dx - k*x)/m", c="furlongs per whatnot") == [
        "the unit 'furlongs per whatnot' of c is not known"
    ]
    assert unit_of_text("") is None and unit_of_text("m/s^1.5") is not None


def test_check_reports_them(tmp_path: Path) -> None:
    right, wrong = call("check", write_study(tmp_path)), STUDY.replace('unit = "1/s"', 'unit = "s"')
    assert "units: both sides of every equation agree" in right.stdout
    result = call("check", write_study(tmp_path, wrong))
    assert "look" in result.stdout
    assert "units: the equation of h: the left side is in m s^-1, the right side in m s" in result.stdout
