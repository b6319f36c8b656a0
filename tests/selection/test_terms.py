"""Menus: names, groups, needs, and sentences about what is wrong with them."""

import numpy as np
import pytest

import probsysid as ps
from probsysid import InputError, dist
from tests import duffing

NORMAL = dist.Normal(0, 1)


def term(name: str, text: str | None = None, **changes: object) -> ps.Term:
    given = {"dynamics": {"x": text or f"-{name}_c*x**3"}, "priors": {f"{name}_c": NORMAL}}
    return ps.Term(name, **{**given, **changes})


def test_needs_come_with_a_term_and_leave_what_needs_them() -> None:
    menu = ps.Terms(term("a"), term("b", needs=["a"]), term("c", needs=["b"]), term("d"), exclusive=[("a", "d")])
    assert menu.with_needs(["c"]) == {"a", "b", "c"}
    assert menu.without(frozenset("abc"), "a") == frozenset()
    assert not menu.is_allowed(["b"]) and not menu.is_allowed(["a", "d"])
    assert set(menu.neighbours(frozenset())) == {frozenset("a"), frozenset("ab"), frozenset("abc"), frozenset("d")}
    assert frozenset("d") in menu.neighbours(frozenset("a"))
    assert frozenset("d") not in menu.neighbours(frozenset("a"), exchanges=False)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: ps.Terms(), "a menu needs at least one term"),
        (lambda: ps.Terms(term("a"), term("a")), "two terms are called 'a'"),
        (lambda: ps.Terms(term("a"), term("b", priors={"a_c": NORMAL})), "'a_c' belongs to two terms, 'a' and 'b'"),
        (lambda: ps.Terms(term("a"), exclusive=[("a",)]), "a group of exclusive terms has the members: 'a'"),
        (lambda: ps.Terms(term("a"), exclusive=[("a", "bb")]), "there is no term 'bb'; known are: a"),
        (lambda: ps.Terms(term("a", needs=["q"])), "the term 'a' needs: there is no term 'q'"),
        (lambda: ps.Terms(term("a"), term("b", needs="a"), exclusive=[("a", "b")]), "what it needs is exclusive"),
        (lambda: ps.Term("a"), "the term 'a' adds nothing"),
        (lambda: ps.Term("a+b", {"x": "1"}), "the name of a term is 'a+b'"),
        (lambda: ps.Term("a", {"x": "k3*"}), "the term 'a', dynamics of 'x': column"),
        (lambda: term("a", coordinates={"z": 1}), "'z' must be in both, its coordinates and its equations"),
    ],
)
def test_a_menu_that_makes_no_sense_is_refused(make: object, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence.replace("+", r"\+").replace("(", r"\(")):
        make()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (term("a", "-a_c*xx**3"), "the term 'a': unknown name 'xx' in '-a_c.xx..3'.*Did you mean 'x'"),
        (term("a", "-kk*a_c*x**3"), "unknown name 'kk'"),
        (term("a", dynamics={"y": "-a_c*x"}), "adds to the coordinate 'y'; the model has: x"),
        (term("a", dynamics={}, outputs={"velocity": "a_c"}), "adds to the output 'velocity'; the model has: position"),
        (term("a", dynamics={}, inputs={"torque": "a_c"}), "adds to the input 'torque'; the model has: force"),
        (term("a", "-k*x**3", priors={"k": NORMAL}), "has an own 'k', but the model has one already"),
        (term("a", priors={"a_c": NORMAL, "unused": NORMAL}), "the term 'a': .*'unused'"),
        (
            ps.Term("a", {"x": lambda s, u, p: -p.unknown * s.x}),
            "the term 'a': .*'unknown'",
        ),
        (term("a", initial={"z": 0.0}), "initial names 'z', which is no component of its own"),
    ],
)
def test_a_term_that_does_not_fit_the_model_is_refused(given: ps.Term, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        ps.select(duffing.model, ps.Terms(given), duffing.measure(20), **duffing.options())


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"record": []}, "there is no record"),
        ({"search": {"starts": ["a"]}}, "starts has the entry 'a'; each entry is a list"),
        ({"search": {"starts": [["b"]]}}, "there is no term 'b'"),
        ({"search": {"starts": []}}, "starts is empty"),
        ({"search": {"budget": 0}}, "search: budget is 0; it must be a whole number from 1"),
        ({"search": {"model_prior": "flat"}}, "model_prior is 'flat'; it must be 'sizes' or 'models'"),
        ({"search": {"screen": 1}}, "screen is 1; it must be True or False"),
        ({"terms": [term("a")]}, "it must be a Terms"),
    ],
)
def test_wrong_options_are_refused(changes: dict, sentence: str) -> None:
    given = {"terms": ps.Terms(term("a")), "record": duffing.measure(20), **duffing.options(), **changes}
    with pytest.raises(InputError, match=sentence):
        search = ps.SearchOptions(**given.pop("search", {}))
        ps.select(duffing.model, search=search, **given)


def test_a_folder_that_is_a_file_is_refused(tmp_path: object) -> None:
    path = tmp_path / "file"
    path.write_text("")
    with pytest.raises(InputError, match="which is a file; name a folder"):
        ps.select(duffing.model, ps.Terms(term("a")), duffing.measure(20), folder=path, **duffing.options())


def test_terms_see_what_is_without_them() -> None:
    """An actuator's lag, a sensor's and an offset, against the equations that they stand for."""
    from probsysid.selection.extension import extended

    lag = ps.Term(
        "actuator", inputs={"force": "f - force"}, coordinates={"f": 1}, equations={"f": "(force - f)/T"},
        priors={"T": NORMAL},
    )  # fmt: skip
    offset = ps.Term("offset", outputs={"position": "b"}, priors={"b": NORMAL})
    sensor = ps.Term(
        "sensor", outputs={"position": "y - position"}, coordinates={"y": 1}, equations={"y": "(position - y)/Ts"},
        priors={"Ts": NORMAL},
    )  # fmt: skip
    model = extended(duffing.model, [lag, offset, sensor], ["force"])
    x, dx, f, y, force, b = 0.3, -0.2, 0.7, 0.1, 2.0, 0.05
    p = {**duffing.TRUTH, "T": 0.5, "b": b, "Ts": 0.25}
    found = [float(v) for v in model.highest_derivatives([x, dx, f, y], [force], p)]
    own = (f - p["c"] * dx - p["k"] * x - p["k3"] * x**3) / p["m"]
    assert np.allclose(found, [own, (force - f) / 0.5, (x + b - y) / 0.25], rtol=1e-12)
    assert np.isclose(float(model.measured([x, dx, f, y], found, [force], p)[0]), y, rtol=1e-12)
