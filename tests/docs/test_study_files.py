"""The page on study files is correct: its study is valid, its lists are complete."""

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from probsysid.model.equations import FUNCTIONS
from probsysid.study.catalogue import NAMES, look_up
from probsysid.study.priors import FAMILIES, parse_prior
from probsysid.study.run import load_results, load_study
from probsysid.study.schema import DataSection, NoiseSection, SamplerSection, SolverSection
from probsysid.study.study_file import study_of
from tests.study.shell import call

PAGE = (Path(__file__).parents[2] / "docs" / "study-files.md").read_text()


def test_the_study_on_the_page_is_valid(tmp_path: Path) -> None:
    study, *_ = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)  # the others are parts
    time = np.arange(0, 60_000, 50)
    rows = "".join(f"{t};{np.sin(t / 900):.4f};{20 * np.sin(t / 800):.3f}\n".replace(".", ",") for t in time)
    (tmp_path / "roll.csv").write_bytes(("Zeit [ms];Moment [N m];Winkel [°]\n" + rows).encode("cp1252"))
    (tmp_path / "roll.toml").write_text(study)
    plan, _ = load_study(tmp_path / "roll.toml")
    assert [plan.measured[0].train, plan.measured[0].test] == [slice(0, 1000), slice(1000, 1200)]
    # degrees to radians
    assert np.ptp(plan.training[0].outputs["angle"]) < 0.75


def test_lists_are_complete() -> None:
    for name in (*NAMES, *FUNCTIONS, *SolverSection.model_fields, *SamplerSection.model_fields):
        assert re.search(rf"\b{name}\b", PAGE), name
    for name in (*DataSection.model_fields, *NoiseSection.model_fields):
        assert re.search(rf"`{name}[` ]", PAGE), name
    for name in NAMES:
        row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{name}`"))
        assert name in ("mdof-chain", "duffing", "duffing-asymmetric", "coulomb", "bouc-wen") or all(
            quantity in row for quantity in look_up(name).quantities
        )


def test_priors_on_the_page_are_priors() -> None:
    found = [text for text in re.findall(r"`(\w+\([^`]*\))`", PAGE) if text.split("(")[0] in FAMILIES]
    assert {text.split("(")[0] for text in found} == set(FAMILIES)
    for text in found:
        parse_prior(text)


@pytest.mark.long
def test_the_study_on_the_page_runs(tmp_path: Path) -> None:
    """On a simulated ship with constants that its priors hold."""
    study, *_ = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    inertia, linear, quadratic, righting = 1.4, 0.4, 0.3, 4.5
    time = np.arange(0, 60, 0.05)
    moment = 1.5 * np.sin(1.4 * time) + np.sin(2.3 * time)

    def roll(t: float, s: np.ndarray) -> tuple[float, float]:
        drive = np.interp(t, time, moment)
        return s[1], (drive - linear * s[1] - quadratic * abs(s[1]) * s[1] - righting * np.sin(s[0])) / inertia

    angle = solve_ivp(roll, (0, time[-1]), (0.2, 0.0), t_eval=time, rtol=1e-8, max_step=0.05).y[0]
    noisy = np.degrees(angle) + 0.3 * np.random.default_rng(0).standard_normal(len(time))
    columns = zip(1000 * time, moment, noisy, strict=True)
    rows = "".join(f"{t:.0f};{u:.5f};{y:.3f}\n".replace(".", ",") for t, u, y in columns)
    (tmp_path / "roll.csv").write_bytes(("Zeit [ms];Moment [N m];Winkel [°]\n" + rows).encode("cp1252"))
    (tmp_path / "roll.toml").write_text(study)
    answer = call("fit", tmp_path / "roll.toml", "--quiet", "--particles", "256")
    assert answer.exit_code == 0, answer.stderr
    _, _, (found,) = load_results(tmp_path / "roll-results")
    table = found.table()
    truth = {"J": inertia, "d1": linear, "d2": quadratic, "k": righting}
    assert all(abs(table.loc[name, "mean"] - value) < 4 * table.loc[name, "sd"] for name, value in truth.items())


def test_every_piece_of_a_study_on_any_page_is_valid() -> None:
    """Put into a small study, its keys and values pass the schema."""
    data = {"file": "a.csv", "dt": 1.0, "outputs": {"y": "y"}}
    model = {"coordinates": {"x": 1}, "equations": {"x": "-x"}}
    for page in sorted((Path(__file__).parents[2] / "docs").glob("*.md")):
        for text in re.findall(r"```toml\n(.*?)```", page.read_text(), re.DOTALL):
            tables = tomllib.loads(text)
            own = tables.get("model", {})
            whole = "data" in tables or "catalogue" in own
            study_of({"data": data, **tables, "model": own if whole else {**model, **own}}, page)
