"""Intermediate expressions in study equations: the same model as written out, stored as text, shown in the report."""

from pathlib import Path

import numpy as np
import pytest

import probsysid as ps
from probsysid.model.equations import parse
from probsysid.model.model_equations import ModelEquations
from probsysid.model.stored_model import decode_model, encode_model
from probsysid.study.report_views import typeset
from tests.study.shell import call
from tests.study.small import STUDY, write_study

EQUATION = 'h = "a*(b*u - h)"'
LET = 'h = "a*(inflow - outflow)"\n\n[model.let]\ninflow = "gain*u"\ngain = "b + 0*h"\noutflow = "h"'
"""In another order than that of dependence."""


def written(let: dict[str, str], equation: str, output: str = "h") -> ModelEquations:
    parsed = {name: parse(text) for name, text in let.items()}
    return ModelEquations({"h": 1}, {"h": parse(equation)}, {"level": parse(output)}, ("u",), parsed)


def test_it_is_the_model_written_out() -> None:
    short = written({"inflow": "gain*u", "gain": "b**2", "unused": "c*h"}, "a*(inflow - h)", "h + gain")
    full = written({}, "a*(b**2*u - h)", "h + b**2")
    models = [ps.Model(e.coordinates, e.dynamics, e.measured) for e in (short, full)]
    assert short.used == full.used == ("a", "b", "u", "h")
    assert set(models[0].parameter_names) == set(models[1].parameter_names) == {"a", "b"}
    given = {"a": 1.5, "b": 0.7}
    for function in ("highest_derivatives",):
        values = [float(getattr(model, function)([0.3], [2.0], given)[0]) for model in models]
        assert values[0] == values[1] == 1.5 * (0.7**2 * 2.0 - 0.3)
    measured = [float(model.measured([0.3], [0.1], [2.0], given)[0]) for model in models]
    assert measured[0] == measured[1]
    assert short.let_used == ("gain", "inflow")


def test_files_hold_it_as_text() -> None:
    equations = written({"inflow": "gain*u", "gain": "b"}, "a*(inflow - h)")
    model = ps.Model(equations.coordinates, equations.dynamics, equations.measured)
    data = encode_model(model)
    assert data["texts"]["let"] == {"inflow": "gain*u", "gain": "b"}
    again = decode_model(data)
    values = [float(m.highest_derivatives([0.3], [2.0], {"a": 1.5, "b": 0.7})[0]) for m in (model, again)]
    assert values[0] == values[1]
    del data["texts"]["let"]  # files of versions without
    data["texts"]["equations"]["h"] = "a*(b*u - h)"
    assert float(decode_model(data).highest_derivatives([0.3], [2.0], {"a": 1.5, "b": 0.7})[0]) == values[0]


@pytest.mark.long
def test_a_study_with_them_gives_the_same_numbers(tmp_path: Path) -> None:
    results = []
    for name, text in (("full", STUDY), ("short", STUDY.replace(EQUATION, LET))):
        folder = tmp_path / name
        folder.mkdir()
        answer = call("fit", write_study(folder, text))
        assert answer.exit_code == 0, answer.stderr
        results.append(ps.Posterior.load(folder / "lag-results" / "posterior.nc"))
    assert list(results[0].values) == list(results[1].values)
    assert np.allclose(results[0].table()["mean"], results[1].table()["mean"], rtol=1e-6)
    assert results[1].simulate(results[1].records[0], particles=4).outputs["level"].shape == (4, 40)
    assert "outflow" in (tmp_path / "short" / "lag-results" / "report.html").read_text()


def test_the_report_shows_what_is_used_in_order_of_dependence() -> None:
    blocks = typeset(written({"inflow": "gain*u", "gain": "b"}, "a*(inflow - h)"))
    assert len(blocks) == 4
    assert "gain" in blocks[2] and "inflow" not in blocks[2] and "inflow" in blocks[3]


@pytest.mark.parametrize(
    ("let", "sentence"),
    [
        ('flow = "b*u + lag"\nlag = "flow/2"', "`model.let.lag`: column 1: it depends on itself: flow -> lag -> flow."),
        ('flow = "b*v"', "`model.let.flow`: column 3: unknown name 'v'; known are: h, u, a, b, flow."),
        ('flow = "b*u"\nh = "b"', "'h' is a state and an intermediate expression; rename one."),
        ('flow = "b*u"\na = "b"', "'a' is a parameter and an intermediate expression; rename one."),
        ('flow = "b*u"\nu = "b"', "'u' is an input and an intermediate expression; rename one."),
        ('flow = "b*u"\nother = "b"', "`model.let.other`: no equation and no output uses it."),
        ('flow = "b*dh"', "unknown name 'dh'"),
        ('flow = "b*"', "`model.let.flow`"),
        ('flow = "b*u"\nsin = "b"', "this name is taken by a function or constant"),
    ],
)
def test_mistakes_have_a_sentence_with_their_position(tmp_path: Path, let: str, sentence: str) -> None:
    text = STUDY.replace(EQUATION, f'h = "a*(flow - h)"\n\n[model.let]\n{let}')
    answer = call("check", write_study(tmp_path, text))
    assert answer.exit_code == 2
    assert sentence in " ".join(answer.stderr.split())
