"""Equations as MathML: notation, brackets, spacing."""

import re

import pytest

from probsysid.model.equations import parse
from probsysid.model.mathml import equation_of_motion, output_equation


def plain_text(mathml: str) -> str:
    return re.sub(r"<[^>]+>", "", mathml)


def test_equations_as_mathematics() -> None:
    shown = equation_of_motion("x", 2, parse("(force - c*dx - k3*x**3)/m"), {"x": 2})
    assert plain_text(shown).replace("\u2062", "") == "𝑥̈=force−c𝑥̇−k3x3m"
    assert "<mfrac>" in shown and "<msub><mi>k</mi>" in shown and "<msup>" in shown
    shown = output_equation("a b", parse("abs(z) + sqrt(2)*alpha - (x - y) + exp(-x)*1.5e-3"), {"x": 2, "z": 1})
    assert "<msqrt>" in shown and "α" in shown and "10" in shown
    assert plain_text(shown).count("(") == 1


@pytest.mark.parametrize(
    ("text", "spaced"),
    [("Tc*sin(x)", 1), ("c*dx", 0), ("m*sin(x)*c", 1), ("c*sqrt(x)", 0), ("gain*c", 1), ("c*gain**2", 1), ("2*c*x", 0)],
)
def test_words_and_functions_stand_clear_of_their_neighbours(text: str, spaced: int) -> None:
    assert output_equation("y", parse(text), {"x": 2}).count("<mspace") == spaced


def test_dots_stand_clear_of_capitals() -> None:
    shown = equation_of_motion("T1", 1, parse("-T1"), {"T1": 1})
    assert "<mover><mi>T</mi>" in shown and "\u0307" not in shown


def test_brackets_stay_where_they_are_needed() -> None:
    for text, brackets in [("a*(b + c)", 1), ("(a*b)*c", 0), ("(a + b)**2", 1), ("-(a + b)", 1), ("a - (b - c)", 1),
                           ("(a/b)**2", 1), ("a/(b + c)", 0), ("(-a)**2", 1), ("-a**2", 0)]:  # fmt: skip
        shown = plain_text(output_equation("y", parse(text), {"x": 1}))
        assert shown.count("(") == brackets, (text, shown)


def test_the_mathematics_is_well_formed() -> None:
    from xml.etree import ElementTree

    text = "where(x <= 0, min(a, 1_000), tanh(ddx)/3)**k_0 - atan2(F_c, 1e5)*omega2 + 2*3"
    ElementTree.fromstring(output_equation("<y>", parse(text), {"x": 2}).replace("&#160;", " "))


@pytest.mark.parametrize("number", ["1" * 40, f"1.{'0' * 40}e-5", "0." + "3" * 60, "1_000e1_0", "0x" + "f" * 50])
def test_long_numbers_are_shown_whole(number: str) -> None:
    drawn = output_equation("y", parse(f"{number}*x"), {"x": 1})
    mantissa = number if number.startswith("0x") else number.partition("e")[0]
    assert f"<mn>{mantissa.replace('_', '')}</mn>" in drawn
