"""Which column is what: as the user says, else by names, values and order, each guess with its reason."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io

from probsysid.study.run import load_study
from probsysid.study.scaffold import new_study
from tests.study.shell import call
from tests.study.test_first_look import DRIVE, NOISE, TIME, lag
from tests.study.test_scaffold_and_preflight import write_csv


def new(folder: Path, columns: dict[str, np.ndarray], *options: str) -> tuple[Any, str]:
    """The study that is written for a file with these columns, and what was said."""
    write_csv(folder / "d.csv", columns)
    result = call("new", folder / "s", "--data", folder / "d.csv", *options)
    assert result.exit_code == 0, result.stderr
    resolved, _ = load_study(folder / "s.toml")
    return resolved, result.stdout


def test_pharmacokinetics_are_no_oscillator(tmp_path: Path) -> None:
    time = np.array([0, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 6, 8, 10, 12, 16, 24.0])
    dose = np.where(time < 1, 200.0, 0.0)
    after = np.exp(-0.15 * np.maximum(time - 1, 0)) * (1 - np.exp(-0.15 * np.minimum(time, 1)))
    resolved, said = new(tmp_path, {"time (h)": time, "dose (mg/h)": dose, "conc (mg/L)": after})
    model = resolved.candidates[0].model
    assert dict(model.coordinates) == {"conc": 1}
    assert resolved.training[0].samples == 15  # all, since they are few
    assert resolved.training[0].inputs["dose"][0] == pytest.approx(200 / 3600)  # seconds are the unit of time
    assert resolved.training[0].intersample == {"dose": "zoh"}
    assert "a dose and a concentration" in said
    # priors from the gain and the time constant that are seen: half their standard deviation is a factor of two
    clearance, volume = 200 / 3600, 200 / 3600 / 0.15 * 3600
    for name, value in (("CL", clearance), ("V", volume)):
        assert abs(float(resolved.candidates[0].problem.priors[name].loc) - np.log(value)) < 0.7


def test_an_input_is_not_proposed_as_output_and_runs_are_told_apart(tmp_path: Path) -> None:
    columns = {"uEst": DRIVE, "uVal": DRIVE[::-1], "yEst": lag(3) + NOISE, "yVal": lag(2) + NOISE}
    lines = [",".join([*columns, "Ts"])]
    lines += [",".join([*(f"{v:.6g}" for v in row), ""]) for row in zip(*columns.values(), strict=True)]
    lines[1] += "4"
    (tmp_path / "d.csv").write_text("\n".join(lines))
    result = call("new", tmp_path / "s", "--data", tmp_path / "d.csv")
    assert result.exit_code == 0, result.stderr
    resolved, _ = load_study(tmp_path / "s.toml")
    assert [m.section.outputs["response"].column for m in resolved.measured] == ["yEst", "yVal"]
    assert [m.section.inputs["drive"].column for m in resolved.measured] == ["uEst", "uVal"]
    assert [(m.train is None, m.test is None) for m in resolved.measured] == [(False, True), (True, False)]
    assert resolved.measured[0].record.dt == 4.0
    assert "'Ts' has the single value 4" in result.stdout


def test_names_that_say_nothing_are_told_by_their_values(tmp_path: Path) -> None:
    """A held signal drives; of two smooth ones, the one that the other follows."""
    resolved, said = new(tmp_path, {"t": TIME, "b": lag(1) + NOISE, "c": DRIVE})
    assert resolved.measured[0].section.inputs["drive"].column == "c" and "it is held" in said
    (tmp_path / "s.toml").unlink()
    smooth = np.convolve(np.random.default_rng(3).normal(size=len(TIME)), np.ones(9) / 9)[: len(TIME)]
    response = np.zeros(len(TIME))
    for k in range(1, len(TIME)):
        response[k] = 0.95 * response[k - 1] + 0.05 * smooth[k - 1]
    resolved, said = new(tmp_path, {"t": TIME, "b": response, "c": smooth})
    assert resolved.measured[0].section.inputs["drive"].column == "c" and "the other column follows it" in said


def test_options_decide(tmp_path: Path) -> None:
    columns = {"a": lag(1), "b": DRIVE, "c (mm)": lag(2)}
    options = ("--fs", "20", "--input", "u=b", "--output", "height=c", "--unit", "b=kN")
    resolved, said = new(tmp_path, columns, *options)
    (item,) = resolved.measured
    assert item.record.dt == pytest.approx(0.05)
    assert item.section.inputs["u"].column == "b" and item.section.inputs["u"].scale == 1e3
    assert item.section.outputs["height"].column == "c (mm)" and item.section.outputs["height"].unit == "m"
    assert "u" in resolved.candidates[0].model.input_names  # in the equation as well
    assert "(as given)" in said


def test_a_speed_and_a_current_are_a_motor(tmp_path: Path) -> None:
    resolved, _ = new(tmp_path, {"iq [A]": DRIVE, "speed [rpm]": lag(0.4)}, "--dt", "0.05")
    assert set(resolved.candidates[0].model.parameter_names) == {"k", "a", "f"}
    assert resolved.measured[0].record.units["speed"] == "rad/s"


def test_cells_of_matlab_are_runs(tmp_path: Path) -> None:
    swing = np.exp(-0.1 * TIME) * np.cos(4 * TIME)
    cells = {"T_id": [TIME, TIME + 50], "Y_id": [np.stack([swing, swing]), np.stack([swing, swing])]}
    arrays = {name: np.empty(2, dtype=object) for name in cells}
    for name, both in cells.items():
        arrays[name][0], arrays[name][1] = both
    scipy.io.savemat(tmp_path / "d.mat", arrays)
    result = call("new", tmp_path / "s", "--data", tmp_path / "d.mat")
    assert result.exit_code == 0, result.stderr
    resolved, _ = load_study(tmp_path / "s.toml")
    assert [m.section.outputs["position"].column for m in resolved.measured] == ["Y_id{1}(:,1)", "Y_id{2}(:,1)"]
    assert resolved.candidates[0].model.input_names == ()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--dt", "0"], "--dt is 0; it must be positive"),
        (["--dt", "1", "--fs", "1"], "give one of --dt and --fs, not both"),
        (["--input", "force"], "--input: .*d.csv has no column 'force'; it has: t, F, x"),
        (["--output", "9x=x"], "'9x' cannot be a name in equations"),
        (["--input", "x", "--output", "x"], "'x' is given twice"),
        (["--unit", "x"], "--unit is 'x'; write COLUMN=UNIT"),
    ],
)
def test_options_that_cannot_be(tmp_path: Path, options: list[str], message: str) -> None:
    write_csv(tmp_path / "d.csv", {"t": TIME, "F": DRIVE, "x": lag(1)})
    result = call("new", tmp_path / "s", "--data", tmp_path / "d.csv", *options)
    assert result.exit_code == 2
    assert re.search(message, result.stderr), result.stderr
    assert not (tmp_path / "s.toml").exists()


def test_a_terminal_is_asked_with_guess_and_reason(tmp_path: Path) -> None:
    write_csv(tmp_path / "d.csv", {"iq": DRIVE, "y": lag(1)})
    asked: list[tuple[str, str]] = []

    def answer(question: str, proposed: str) -> str:
        asked.append((question, proposed))
        return proposed or "20 Hz"

    text, _ = new_study(tmp_path / "s.toml", tmp_path / "d.csv", None, None, ask=answer)
    assert [proposed for _, proposed in asked] == ["y", "iq", ""]
    assert "by its name" in asked[0][0] and "Seconds per sample" in asked[2][0]
    assert "dt = 0.05" in text
    other = {"y": "iq", "iq": "y", "": "1"}
    again, _ = new_study(tmp_path / "s.toml", tmp_path / "d.csv", None, None, ask=lambda _, p: other[p])
    assert 'column = "iq", unit = ""' in again.split("[data.outputs]")[1]
