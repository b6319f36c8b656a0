"""Equations as text: their values, what is refused, and that no code in them is ever executed."""

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import probsysid as ps
from probsysid.model import equations
from probsysid.model.equations import FUNCTIONS, Binary, Call, Equation, EquationError, Minus, Number, Symbol, parse

VALUES = {"x": 0.7, "dx": -0.4, "u": 1.3, "k": 2.0, "c": 0.1, "ħ": 3.0}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", 1.0),
        ("x", 0.7),
        ("  x +\n\t u ", 2.0),
        ("-x**2", -0.49),
        ("(-x)**2", 0.49),
        ("dx**3", -0.064),
        ("dx**-2", 6.25),
        ("2**-1*4", 2.0),
        ("u - c*dx - k*x - 0.5*x**3", 1.3 + 0.04 - 1.4 - 0.5 * 0.343),
        ("x/k/2", 0.175),
        ("k*sin(pi*x/2)", 2 * math.sin(math.pi * 0.35)),
        ("where(dx < 0, 1e3, -x)", 1000.0),
        ("max(min(u, 1), 0) + abs(dx) * sign(dx)", 0.6),
        ("k**x", 2**0.7),
        ("atan2(dx, x) + log10(100) + sqrt(4)", math.atan2(-0.4, 0.7) + 4),
        ("2*ħ", 6.0),
        ("1_000.5", 1000.5),
    ],
)
def test_value(text: str, expected: float) -> None:
    # a handful of operations in double precision
    np.testing.assert_allclose(parse(text).evaluate(VALUES), expected, rtol=1e-14)


def test_names_in_the_order_of_the_text() -> None:
    assert parse("(u - c*dx - k*x)/k").names == ("u", "c", "dx", "k", "x")


def test_an_equation_drives_a_model_and_compares_with_functions_written_by_hand() -> None:
    rhs = parse("(u - c*dx - k*x - k3*x**3)/m")
    written = ps.Model(
        {"x": 2},
        lambda s, u, p: {"x": rhs.evaluate({"x": s.x, "dx": s.dx, "u": u.u, "c": p.c, "k": p.k, "k3": p.k3, "m": p.m})},
    )
    by_hand = ps.Model({"x": 2}, lambda s, u, p: {"x": (u.u - p.c * s.dx - p.k * s.x - p.k3 * s.x**3) / p.m})
    numbers = {"c": 0.1, "k": 2.0, "k3": 0.5, "m": 1.5}
    found, expected = (m.highest_derivatives([-0.3, 0.2], [1.0], numbers) for m in (written, by_hand))
    np.testing.assert_allclose(found, expected, rtol=1e-14)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_can_be_differentiated_by_the_solver(name: str) -> None:
    count, _ = FUNCTIONS[name]
    arguments = {1: "0.3 + 0.1*x", 2: "x, 0.5", 3: "x < 0.2, x, 0.4"}[count]
    rhs = parse(f"-x + 0.1*{name}({arguments})")
    along = jax.jvp(lambda x: rhs.evaluate({"x": x}), (0.3,), (1.0,))[1]
    assert np.isfinite(along)


ESCAPES = [
    "__import__('os').system('touch /tmp/escaped')",
    "().__class__.__bases__[0].__subclasses__()",
    "x.__class__",
    "x.real",
    "[].append(1)",
    "exec('1')",
    "eval('1')",
    "open('/etc/passwd')",
    "compile('1', '', 'eval')",
    "getattr(x, 'y')",
    "globals()",
    "vars()",
    "breakpoint()",
    "input()",
    "print(x)",
    "(lambda: 1)()",
    "(lambda x: x)(1)",
    "[x for x in (1, 2)]",
    "{x for x in (1, 2)}",
    "{x: 1 for x in (1, 2)}",
    "(x for x in (1, 2))",
    "(y := 3)",
    "f'{x.__class__}'",
    "f'{__import__(\"os\")}'",
    "'a' * 10",
    "b'a'",
    "'%s' % x",
    "x[0]",
    "x['a']",
    "x[1:2]",
    "*x",
    "sin(*x)",
    "sin(**x)",
    "sin(x=1)",
    "sin",
    "sin.__call__(1)",
    "sin(x)(x)",
    "sin(x).real",
    "max(x, u, key=abs)",
    "x if u else k",
    "x and u",
    "not x",
    "~x",
    "x @ u",
    "x // u",
    "x % u",
    "x << 3",
    "x ^ 3",
    "x | u",
    "1j",
    "True",
    "None",
    "...",
    "x < u",
    "x < u < k",
    "where(x, 1, 2)",
    "where(x == u, 1, 2)",
    "where(x < u < k, 1, 2)",
    "where(x is u, 1, 2)",
    "x, u",
    "[x]",
    "{x}",
    "{}",
    "x = 1",
    "x; u",
    "import os",
    "await x",
    "yield x",
    "__name__",
    "_x",
    "a__b",
    "__builtins__",
    "#",
    "",
    "   ",
    "\n",
    "x #\n.real",
    "x\x00",
    "x\u2028u",
    "x\x0c.real",
    "sin(x",
    "x +",
    "1e999",
    "9" * 400,
    "9" * 3999,
    "9" * 5000,
    "-" * 3000 + "x",
    "(" * 300 + "x" + ")" * 300,
    "+".join(["x"] * 1500),
    "x" + "**2" * 100,
    "sin(" * 70 + "x" + ")" * 70,
    "x" * 4001,
    "０x41",
    "ｅval('1')",
    "x。real",
    "π",
    "x²",
]


@pytest.mark.parametrize("text", ESCAPES, ids=range(len(ESCAPES)))
def test_escapes_are_refused(text: str) -> None:
    with watched() as seen, pytest.raises(EquationError) as caught:
        # a name alone is a quantity that the study does not know
        parse(text).check_names(("x", "u", "k"))
    assert not seen
    assert "Traceback" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", [None, 3, 2.5, ["x"], b"x"])
def test_what_is_not_text_is_refused(text: object) -> None:
    with pytest.raises(EquationError, match="an equation is a text"):
        parse(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("u - x.real", r"column 5: attribute access"),
        ("  u - x^3", r"column 8: '\^' is not a power here; write \*\*"),
        ("ħħ*x + y", r"column 1: unknown name 'ħħ'"),
        ("ħ*x + y.a", r"column 7: attribute access"),
        ("k*sine(x)", r"column 3: unknown function 'sine'.*Did you mean 'sin'"),
        ("atan2(x)", r"column 1: 'atan2' takes 2 arguments, found 1"),
        ("x + sin", r"column 5: 'sin' is a function; write sin\(...\)"),
        ("x + (u", r"column 5: this is not an expression"),
        ("x if u else k", r"use where\(condition, then, otherwise\)"),
        ("velocity + x", r"column 1: unknown name 'velocity'; known are: x, u, ħ\."),
        ("x + 1/0", r"column 6: 1/0 divides by zero"),
        ("x/(2 - 2)", r"column 2: x/\(2 - 2\) divides by zero"),
        ("x*log(-1)", r"column 3: log\(-1\) is nan, not a finite number"),
        ("9**9**9**9**9", r"9\*\*9\*\*9 is inf, not a finite number"),
    ],
)
def test_a_message_has_the_place(text: str, message: str) -> None:
    with pytest.raises(EquationError, match=message):
        parse(text).check_names(("x", "u", "ħ"))


_active: list[str] | None = None
_installed = False


WATCHED = ("exec", "import", "open", "os", "subprocess", "socket", "ctypes")


def _listen(event: str, _: object) -> None:
    # parsing itself reports "compile", with a syntax tree as its result; "exec" reports that a code object is run
    if _active is not None and event.split(".")[0] in WATCHED:
        _active.append(event)


@contextmanager
def watched() -> Iterator[list[str]]:
    """Audit events of Python: what was executed, imported or opened."""
    global _active, _installed
    if not _installed:
        sys.addaudithook(_listen)
        _installed = True
    _active = seen = []
    try:
        yield seen
    finally:
        _active = None


def test_the_watch_sees_what_runs() -> None:
    with watched() as seen:
        eval("1 + 1")
    assert "exec" in seen


WORDS = ["**", "__", "sin", "where", "lambda", "import", "__class__", "if", "else", "for", "in", "eval", "exec", "open"]
ODD = ["1e9", "and", "not", "None", "f'", "ﬁ", "é", "\x00", "\ud800"]
PIECES = st.sampled_from([*"xuk0123456789.+-*/()[]{},:;=<>!@%^&|~'\"#\\ \n_", *WORDS, *ODD])


@settings(max_examples=400)
@given(st.lists(PIECES, max_size=30).map("".join))
def test_any_text_is_parsed_or_refused_and_nothing_runs(text: str) -> None:
    with watched() as seen:
        try:
            found = parse(text)
        except EquationError:
            found = None
    assert not seen
    if found is not None:
        _check_tree(found.tree)
        assert found.evaluate(dict.fromkeys(found.names, 0.5)) is not None


@settings(max_examples=200)
@given(st.text(max_size=40))
def test_any_unicode_is_parsed_or_refused(text: str) -> None:
    try:
        found = parse(text)
    except EquationError:
        return
    _check_tree(found.tree)


def _check_tree(node: equations.Node) -> None:
    """Only our five node types, numbers and listed functions."""
    match node:
        case Number(value=value):
            assert type(value) is float
        case Symbol(name=name):
            assert name.isidentifier() and not name.startswith("_")
        case Binary(left=left, right=right):
            _check_tree(left)
            _check_tree(right)
        case Minus(part=part):
            _check_tree(part)
        case Call(function=function, arguments=arguments):
            assert function in FUNCTIONS
            for argument in arguments:
                _check_tree(argument)
        case _:
            raise AssertionError(type(node))


def _expressions() -> st.SearchStrategy[str]:
    leaves = st.sampled_from(["x", "u", "k", "2", "0.5", "pi"])
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
            inner.map(lambda t: f"-{t}"),
            inner.map(lambda t: f"sin({t})"),
            inner.map(lambda t: f"({t})**2"),
            st.tuples(inner, inner).map(lambda t: f"{t[0]} - {t[1]} * 3"),
        ),
        max_leaves=12,
    )


@settings(max_examples=100)
@given(_expressions())
def test_values_are_those_of_python(text: str) -> None:
    expected = eval(text, {"__builtins__": {}}, {**VALUES, "sin": math.sin, "pi": math.pi})
    # Up to a dozen operations, but sums may cancel and squares of squares grow: sin of an argument of 1e6 keeps ten
    # digits.
    np.testing.assert_allclose(parse(text).evaluate(VALUES), expected, rtol=1e-9, atol=1e-9)


def test_what_python_only_warns_of_is_refused_in_silence(recwarn: pytest.WarningsRecorder) -> None:
    for text in ("0if 1else x", "1jif x", "0x1for x"):
        with pytest.raises(EquationError):
            parse(text)
    assert len(recwarn) == 0


def test_equations_can_be_compared_and_pickled() -> None:
    import cloudpickle

    equation = parse("sin(x)/k")
    assert isinstance(equation, Equation)
    assert cloudpickle.loads(cloudpickle.dumps(equation)) == equation
