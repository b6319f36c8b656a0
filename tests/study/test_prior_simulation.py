"""Prior simulations against the data: resonances, and what is not finite, by name and time."""

from pathlib import Path

import numpy as np
import pytest

import probsysid as ps
from probsysid.model.equations import parse
from probsysid.model.model_equations import ModelEquations
from probsysid.study.nonfinite import first_failure
from probsysid.study.prior_simulation import PriorSimulation, resonance_findings
from tests.study.shell import call
from tests.study.small import STUDY, write_study

TIME = 0.001 * np.arange(1500)
RECORD = ps.Record(outputs={"y": np.exp(-5 * TIME) * np.cos(2 * np.pi * 68 * TIME)}, dt=0.001)


def simulated(resonances: np.ndarray, record: ps.Record = RECORD) -> PriorSimulation:
    return PriorSimulation("ring", record, {}, 0, np.empty(0), resonances)


def test_a_resonance_far_from_the_data_is_a_conflict() -> None:
    draws = np.geomspace(0.1, 0.4, 40)[:, None] * np.ones(2)
    (found,) = resonance_findings(simulated(draws))
    assert found.warning
    # the grid of frequencies has steps of 7 %
    assert "the resonance of prior draws is at 0.2 Hz (0.11 to 0.37), of the data at 6" in found.text
    (found,) = resonance_findings(simulated(300 * draws))
    assert not found.warning and "which prior draws reach" in found.text
    (found,) = resonance_findings(simulated(np.zeros((40, 2))))
    assert found.warning and "prior draws do not oscillate, the data do" in found.text


def test_data_that_show_no_resonance_say_nothing() -> None:
    draws = np.full((40, 2), 0.2)
    lag = ps.Record(outputs={"y": np.exp(-5 * TIME)}, dt=0.001)
    sine = ps.Record({"u": np.sin(9 * TIME)}, {"y": np.sin(9 * TIME - 1)}, dt=0.001)
    for record in (lag, sine):
        assert resonance_findings(simulated(draws, record)) == []


EQUATIONS = ModelEquations({"c": 1}, {"c": parse("-k*c + u")}, {"y": parse("1 + log(c)")}, ("u",))


@pytest.mark.parametrize(
    ("start", "states", "text"),
    [
        (0.0, [0.0, 1.0, 1.0], r"log(c) in the output y is -inf with c = 0 at t = 0 s"),
        (1.0, [1.0, -0.5, 1.0], r"log(c) in the output y is nan with c = -0.5 at t = 2 s"),
        (1.0, [1.0, 2.0, np.inf], r"c grows beyond all numbers by t = 4 s: is the equation stable?"),
        (1.0, [1.0, 2.0, 3.0], ""),
    ],
)
def test_what_is_not_finite_is_named_with_its_time(start: float, states: list[float], text: str) -> None:
    record = ps.Record({"u": np.ones(3)}, {"y": np.ones(3)}, dt=2.0)
    assert first_failure(EQUATIONS, record, {"k": 1.0}, {"c": start}, {"c": np.array(states)}) == text


def test_check_names_it_advises_against_a_fit_and_leaks_no_warning(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = STUDY.replace('level = "h"', 'level = "log(h)"').replace('"Normal(0, 0.1)"', "0.0")
    result = call("check", write_study(tmp_path, text))
    assert result.exit_code == 0, result.stderr
    assert "64 of 64 simulations from the prior do not stay finite: log(h) in the output level is -inf" in result.stdout
    assert "with h = 0 at t = 0 s" in result.stdout
    assert "Mend this first" in result.stdout and "probsysid fit" not in result.stdout
    assert "Warning" not in result.stderr + capfd.readouterr().err
