"""New study files, and the checks of a study before a run."""

import re
from pathlib import Path

import numpy as np
import pytest
import scipy.io

import probsysid as ps
from probsysid.study.catalogue import ENTRIES, NAMES, look_up
from probsysid.study.preflight import data_findings
from probsysid.study.prior_simulation import PriorSimulation, prior_findings, step_findings
from probsysid.study.run import load_study
from tests.study.shell import call
from tests.study.small import write_study

WORDS = {"position": "x", "velocity": "v", "acceleration": "a"}


def write_csv(path: Path, columns: dict[str, np.ndarray]) -> None:
    rows = zip(*columns.values(), strict=True)
    path.write_text(",".join(columns) + "\n" + "".join(",".join(f"{v:.6g}" for v in row) + "\n" for row in rows))


def oscillation(count: int = 200) -> dict[str, np.ndarray]:
    time = 0.05 * np.arange(count)
    return {"t": time, "F": 3.0 * np.cos(2 * time), "x": 0.01 * np.sin(2 * time)}


@pytest.mark.parametrize("name", NAMES)
def test_what_new_writes_is_a_valid_study(tmp_path: Path, name: str) -> None:
    entry = look_up(name)
    data = {"t": oscillation()["t"]}
    data |= {f"{key} [{unit}]" if unit else key: oscillation()["F"] for key, unit in entry.inputs.items()}
    data |= {key: 1 + oscillation()["x"] for key in list(entry.quantities)[:2]}
    write_csv(tmp_path / "d.csv", data)
    result = call("new", tmp_path / "s", "--model", name, "--data", tmp_path / "d.csv")
    assert result.exit_code == 0, result.stderr
    resolved, _ = load_study(tmp_path / "s.toml")
    assert set(resolved.candidates[0].model.input_names) == set(entry.inputs)
    assert set(resolved.candidates[0].model.output_names) == set(list(entry.quantities)[:2])
    assert resolved.measured[0].test is not None


def test_priors_have_the_scale_of_the_data(tmp_path: Path) -> None:
    """Stiffness is force over length, and mass that times the square of the time per radian."""
    data = oscillation()
    write_csv(tmp_path / "d.csv", data)
    assert call("new", tmp_path / "s", "--model", "linear-sdof", "--data", tmp_path / "d.csv").exit_code == 0
    resolved, _ = load_study(tmp_path / "s.toml")
    prior = resolved.candidates[0].problem.priors["k"]
    stiffness = np.std(data["F"]) / np.std(data["x"])  # about 300
    # two digits: half a unit of the second is at most 5 %
    assert float(np.exp(prior.loc)) == pytest.approx(stiffness, rel=0.05)
    # One radian in half a second.  The record has 3.17 periods, the nearest line of the spectrum 3: 5.5 % in time, 11 %
    # in its square, and two digits.
    mass = float(np.exp(resolved.candidates[0].problem.priors["m"].loc))
    assert mass == pytest.approx(stiffness / 4, rel=0.16)


def test_own_equations_milliseconds_and_a_held_input(tmp_path: Path) -> None:
    time = np.arange(300)
    held = np.where(time // 30 % 2 == 0, 1.0, -1.0)
    write_csv(tmp_path / "d.csv", {"time [ms]": time, "drive [V]": held, "acc [m/s^2]": np.sin(time / 9)})
    result = call("new", tmp_path / "s", "--data", tmp_path / "d.csv")
    assert result.exit_code == 0, result.stderr
    text = (tmp_path / "s.toml").read_text()
    assert 'time_unit = "ms"' in text
    assert 'intersample = "zoh"' in text
    assert 'acceleration = { column = "acc [m/s^2]", unit = "m/s^2" }' in text
    resolved, _ = load_study(tmp_path / "s.toml")
    assert resolved.measured[0].record.dt == pytest.approx(1e-3)


def test_columns_that_are_left_are_offered(tmp_path: Path) -> None:
    data = oscillation()
    write_csv(tmp_path / "d.csv", {**data, "Block temperature (°C)": data["x"], "2nd": data["x"]})
    assert call("new", tmp_path / "s", "--data", tmp_path / "d.csv").exit_code == 0
    text = (tmp_path / "s.toml").read_text()
    assert '# block_temperature = { column = "Block temperature (°C)", unit = "°C" }' in text
    assert '# output_2nd = { column = "2nd", unit = "" }' in text


def test_columns_of_another_run_are_not_offered(tmp_path: Path) -> None:
    data = oscillation()
    runs = {"run1": {**data, "extra": data["x"]}, "run2": {**data, "extra": data["x"]}}
    scipy.io.savemat(tmp_path / "d.mat", runs)
    assert call("new", tmp_path / "s", "--data", tmp_path / "d.mat").exit_code == 0
    text = (tmp_path / "s.toml").read_text()
    assert "# run1_extra = { column" in text and "# run2" not in text


def test_a_coordinate_has_the_unit_of_the_channel_that_measures_it(tmp_path: Path) -> None:
    resolved, _ = load_study(write_study(tmp_path))
    assert resolved.candidates[0].model.units["h"] == "m"


def test_a_record_without_an_input_gets_an_equation_without_one(tmp_path: Path) -> None:
    time = 0.01 * np.arange(300)
    write_csv(tmp_path / "d.csv", {"t": time, "angle [deg]": np.exp(-time) * np.cos(6 * time)})
    result = call("new", tmp_path / "s", "--data", tmp_path / "d.csv")
    assert result.exit_code == 0, result.stderr
    assert "fill it in" not in result.stdout
    resolved, _ = load_study(tmp_path / "s.toml")
    assert resolved.candidates[0].model.input_names == ()
    # 6 rad/s are 2.86 periods in three seconds; half a line of the spectrum is 17.5 %, and two digits at most 1 % more
    assert float(np.exp(resolved.candidates[0].problem.priors["omega"].loc)) == pytest.approx(6, rel=0.2)


def test_decimal_commas_and_an_old_encoding(tmp_path: Path) -> None:
    rows = "".join(f"{k};{0.1 * k:.1f};{k % 7},5\n".replace(".", ",") for k in range(100))
    (tmp_path / "d.csv").write_bytes(("Zeit [ms];Moment [N m];Winkel [°]\n" + rows).encode("latin-1"))
    result = call("new", tmp_path / "s", "--data", tmp_path / "d.csv")
    assert result.exit_code == 0, result.stderr
    assert "it is read as cp1252" in result.stdout
    resolved, _ = load_study(tmp_path / "s.toml")
    # the sine of an angle in degrees would be nonsense
    assert resolved.measured[0].record.outputs["position"][3] == pytest.approx(np.radians(3.5))
    assert resolved.measured[0].record.units["position"] == "rad"


def test_without_time_or_names(tmp_path: Path) -> None:
    scipy.io.savemat(tmp_path / "d.mat", {"u": np.random.default_rng(0).standard_normal(50), "y": np.arange(50.0)})
    arguments = ["new", tmp_path / "s", "--model", "duffing", "--data", tmp_path / "d.mat"]
    result = call(*arguments)
    assert result.exit_code == 2 and "no variable has sample times; give the step in seconds" in result.stderr
    for option, value in (("--dt", "0.002"), ("--fs", "500")):
        (tmp_path / "s.toml").unlink(missing_ok=True)
        assert call(*arguments, option, value).exit_code == 0
        resolved, _ = load_study(tmp_path / "s.toml")
        assert resolved.measured[0].record.dt == 0.002


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["s", "--model", "dufing", "--data", "d.csv"], "there is no model 'dufing'.*Did you mean 'duffing'"),
        (["s", "--data", "e.csv"], "there is no file"),
        (["s", "--model", "duffing", "--masses", "2", "--data", "d.csv"], "masses is for mdof-chain"),
        (["deep/er/s", "--data", "d.csv"], "there is no folder"),
        (["d.csv", "--data", "words.csv"], "there is no column with numbers"),
    ],
)
def test_new_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str) -> None:
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "d.csv", oscillation())
    (tmp_path / "words.csv").write_text("a,b\nx,y\nz,w\n")
    result = call("new", *arguments)
    assert result.exit_code == 2
    assert re.search(message, result.stderr, re.DOTALL)
    assert {p.name for p in tmp_path.iterdir()} == {"d.csv", "words.csv"}


def test_new_does_not_overwrite(tmp_path: Path) -> None:
    write_csv(tmp_path / "d.csv", oscillation())
    (tmp_path / "s.toml").write_text("mine")
    assert call("new", tmp_path / "s", "--data", tmp_path / "d.csv").exit_code == 2
    assert (tmp_path / "s.toml").read_text() == "mine"


def test_check_draws_the_prior_and_names_the_time_it_takes(tmp_path: Path) -> None:
    result = call("check", write_study(tmp_path))
    assert result.exit_code == 0, result.stderr
    assert "lag.csv: 60 samples, dt = 0.1 s, 5.9 s; train 40, test 20" in result.stdout
    assert "simulations from the prior are typically" in result.stdout
    assert "that fits" in result.stdout
    assert "identifying 3 unknowns from 40 samples with 256 particles will take about" in result.stdout
    assert (tmp_path / "lag-check.png").stat().st_size > 10_000


def simulated(scale: float = 1.0, failed: int = 0, rate: float = 2.0, dt: float = 0.1) -> PriorSimulation:
    """Twenty draws from a prior around a measured wave."""
    wave = np.sin(0.3 * np.arange(100))
    record = ps.Record(outputs={"y": wave}, dt=dt)
    draws = scale * np.linspace(-2, 2, 20)[:, None] * wave
    return PriorSimulation("wave", record, {"y": draws[failed:]}, failed, np.full(4, rate))


@pytest.mark.parametrize(
    ("simulation", "message"),
    [
        (simulated(scale=1e4), "look at the units, the columns and the priors"),
        (simulated(scale=1e-4), "look at the units, the columns and the priors"),
        (simulated(scale=0.3), "are the priors wide enough?"),
        (simulated(failed=15), "15 of 20 simulations from the prior do not stay finite"),
        (simulated(failed=15, dt=43200.0), "samples are 43200 s apart: are all rates per second?"),
        (simulated(failed=20), "20 of 20 simulations from the prior do not stay finite"),
        (simulated(rate=35.0), "that is long; set solver.substeps = 4 or more"),
        (simulated(rate=2e3), "are times in seconds, and the priors right?"),
        (simulated(rate=1e-3), "the record only 9.9 s: are times in seconds"),
    ],
)
def test_check_finds_what_is_off(simulation: PriorSimulation, message: str) -> None:
    found = [*prior_findings(simulation), *step_findings(simulation, 1)]
    assert any(message in finding.text and finding.warning for finding in found), found


def test_check_is_content_where_all_is_well() -> None:
    found = [*prior_findings(simulated()), *step_findings(simulated(), 1)]
    assert len(found) == 2 and not any(finding.warning for finding in found), found


def test_clipping_missing_and_constant_channels_are_seen(tmp_path: Path) -> None:
    study = write_study(tmp_path)
    lines = (tmp_path / "lag.csv").read_text().splitlines()
    clip = [",".join([*line.split(",")[:2], str(min(float(line.split(",")[2]), 1.0))]) for line in lines[1:]]
    clip[5] = clip[5].rsplit(",", 1)[0] + ","
    (tmp_path / "lag.csv").write_text("\n".join([lines[0], *clip]))
    resolved, _ = load_study(study)
    texts = [finding.text for finding in data_findings(resolved.measured[0])]
    assert any("level may be clipped" in text for text in texts)
    assert any("if so, write `[noise] level = { upper = 1.0 }`" in text for text in texts)
    assert any("level: 1 of 60 samples are missing" in text for text in texts)


def test_the_line_that_is_offered_for_clipped_data_keeps_what_is_there_and_silences_the_warning(tmp_path: Path) -> None:
    study = write_study(tmp_path)
    lines = (tmp_path / "lag.csv").read_text().splitlines()
    clip = [",".join([*line.split(",")[:2], str(min(float(line.split(",")[2]), 1.0))]) for line in lines[1:]]
    (tmp_path / "lag.csv").write_text("\n".join([lines[0], *clip]))
    resolved, _ = load_study(study)
    (offer,) = [f.text for f in data_findings(resolved.measured[0], resolved.study.noise) if "if so" in f.text]
    line = offer.split("`[noise] ")[1].rstrip("`")
    assert line == "level = { level = 0.02, upper = 1.0 }"
    study.write_text(study.read_text().replace("[noise]\nlevel = 0.02", f"[noise]\n{line}"))
    resolved, _ = load_study(study)
    (candidate,) = resolved.candidates
    assert candidate.problem.noise == {"level": ps.Noise(0.02, upper=1.0)}
    found = [f for f in data_findings(resolved.measured[0], resolved.study.noise) if "clipped" in f.text]
    assert [f.warning for f in found] == [False]


def test_samples_in_train_and_test_are_told(tmp_path: Path) -> None:
    study = write_study(tmp_path)
    study.write_text(study.read_text().replace('[40, "end"]', '[30, "end"]'))
    resolved, _ = load_study(study)
    (found,) = [f for f in data_findings(resolved.measured[0]) if "are in train and in test" in f.text]
    assert found.warning
    assert "samples 30 to 40" in found.text


def test_the_help_lists_the_catalogue() -> None:
    listed = call("new", "--help").stdout
    assert all(name in listed for name in ENTRIES)
