"""Indices in study files: the same model as written out, ends of rows, and what cannot be resolved."""

import tomllib
from typing import Any

import pytest

from probsysid import InputError
from probsysid.study.schema import Study
from probsysid.study.study_file import study_of

CHAIN = """
[data]
file = "chain.csv"
dt = 0.1

[data.inputs]
"force[i]" = "F{i}"

[data.outputs]
"position[i]" = { column = "x{i}", unit = "m" }

[index.i]
last = 3
below = "fixed"
above = "free"

[model.coordinates]
"x[i]" = 2

[model.let]
"e[i]" = "x[i] - x[i-1]"

[model.equations]
"x[i]" = "(force[i] - k[i]*e[i] - c*(dx[i] - dx[i-1]) + k[i+1]*(x[i+1] - x[i]) + c*(dx[i+1] - dx[i]))/m"
"x[2]" = "(force[2] - k[2]*e[2] + kn*(x[3] - x[2])**3)/m"

[model.outputs]
"position[i]" = "x[i]"

[parameters]
"k[i]" = { prior = "LogNormal(0, 1)", description = "spring {i}" }
"k[2]" = 5.0
c = "LogNormal(-2, 1)"
kn = 0.1
m = 1

[initial]
"x[i]" = 0
"dx[i]" = 0
"""


def read(text: str = CHAIN, **changes: str) -> Study:
    for old, new in changes.items():
        text = text.replace(old.replace("_", " "), new)
    return study_of(tomllib.loads(text))


def equation(study: Study, name: str) -> str:
    return study.model[0].equations[name].text.replace(" ", "")


def test_a_row_is_written_out() -> None:
    study = read()
    assert study.model[0].coordinates == {"x1": 2, "x2": 2, "x3": 2}
    assert study.model[0].let["e1"].text == "x1 - 0"
    assert study.model[0].let["e3"].text == "x3 - x2"
    first = "(force1-k1*e1-c*(dx1-0)+k2*(x2-x1)+c*(dx2-dx1))/m"
    last = "(force3-k3*e3-c*(dx3-dx2)+k3*(x3-x3)+c*(dx3-dx3))/m"
    assert (equation(study, "x1"), equation(study, "x3")) == (first, last)
    assert {name: study.parameters[name].fixed for name in ("k1", "k2", "k3")} == {"k1": None, "k2": 5.0, "k3": None}
    assert study.parameters["k3"].description == "spring 3"
    assert [study.data[0].outputs[f"position{i}"].column for i in (1, 2, 3)] == ["x1", "x2", "x3"]
    assert study.data[0].inputs["force2"].column == "F2"
    assert set(study.initial) == {"x1", "x2", "x3", "dx1", "dx2", "dx3"}


def test_a_single_one_replaces_that_of_the_row() -> None:
    assert equation(read(), "x2") == "(force2-k2*e2+kn*(x3-x2)**3)/m"


@pytest.mark.parametrize(
    ("ends", "first", "last"),
    [
        ('below = "ring"\nabove = "ring"', "u4-2*u1+u2", "u3-2*u4+u1"),
        ('below = "free"\nabove = "free"', "u1-2*u1+u2", "u3-2*u4+u4"),
        ('below = "fixed"\nabove = "fixed"', "0-2*u1+u2", "u3-2*u4+0"),
    ],
)
def test_ends(ends: str, first: str, last: str) -> None:
    text = f"""
    [data]
    file = "rod.csv"
    dt = 1
    outputs.u2 = "T"
    [index.j]
    last = 4
    {ends}
    [model.coordinates]
    "u[j]" = 1
    [model.equations]
    "u[j]" = "u[j-1] - 2*u[j] + u[j+1]"
    """
    study = read(text)
    assert (equation(study, "u1"), equation(study, "u4")) == (first, last)


def test_two_beyond_a_free_end_is_the_one_before_it() -> None:
    study = read(CHAIN.replace("x[i+1] - x[i]", "x[i+2] - x[i]"))
    assert "(x2-x3)" in equation(study, "x3")


def test_a_parameter_beyond_the_end_by_name() -> None:
    study = read(CHAIN.replace("kn = 0.1", 'kn = 0.1\n"k[4]" = 2.0').replace('above = "free"', 'above = "fixed"'))
    assert "+k4*(0-x3)" in equation(study, "x3")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'above = "free"',
            "",
            r"`model.equations.x\[i\]`: k\[4\] lies beyond the last one: say what is there, \[index.i\]",
        ),
        ('above = "free"', 'above = "fixed"', r"k\[4\] lies beyond the last one: give a value or a prior"),
        ("x[i-1]", "x[j-1]", r"x\[j-1\] is not an index: write a number, or one of i, i-1, i\+1"),
        ('"x[i]" = 2', '"x[n]" = 2', r"`model.coordinates.x\[n\]`: there is no index 'n'; there are: i"),
        ("c = ", '"x[2*i]" = 1\nc = ', r"there is no index '2\*i'"),
        ("last = 3", "last = 300", r"`index.i`.*larger than first \(1\), by 200 at most, found 300"),
        ("last = 3", "last = 1", "larger than first"),
        ('above = "free"', 'above = "ring"', "a ring closes at both ends"),
        ('above = "free"', 'above = "open"', "'fixed', 'free'"),
        ("last = 3", "", "`index.i.last` is missing"),
        ("kn*(x[3]", "kn*(x[i]", r"x\[i\] has an index that its own key has not"),
    ],
)
def test_what_cannot_be_resolved(old: str, new: str, message: str) -> None:
    assert old in CHAIN
    with pytest.raises(InputError, match=message):
        read(CHAIN.replace(old, new))


def elements(*given: dict[str, Any], catalogue: str = "mdof-chain") -> dict[str, Any]:
    model = {"catalogue": catalogue, "elements": list(given)}
    outputs = {"position2": "x2"}
    return {"data": {"file": "a.csv", "dt": 1.0, "outputs": outputs}, "model": model}


def test_a_chain_has_nonlinear_elements_anywhere() -> None:
    between, wall = {"between": [1, 2], "force": "kn*e**3 + cn*abs(de)*de"}, {"between": [0, 2], "force": "g*tanh(de)"}
    entry = study_of(elements(between, wall)).model[0].entry
    assert entry is not None
    force = "kn*(x2 - x1)**3 + cn*abs((dx2 - dx1))*(dx2 - dx1)"
    plain = study_of(elements()).model[0].entry
    assert plain is not None
    assert entry.equations["x1"] == plain.equations["x1"].replace(")/m1", f" + ({force}))/m1")
    assert entry.equations["x2"] == plain.equations["x2"].replace(")/m2", f" - ({force}) - (g*tanh((dx2))))/m2")


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (elements({"between": [2, 1], "force": "e"}), r"lower first, found \[2, 1\]"),
        (elements({"between": [1, 3], "force": "e"}), r"0 \(the wall\) to 2"),
        (
            elements({"between": [0, 1], "force": "e"}, catalogue="duffing"),
            "elements are for mdof-chain, not for duffing",
        ),
        (elements({"between": [0, 1], "force": "e +"}), "model.elements"),
    ],
)
def test_wrong_elements(tables: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        study_of(tables)
