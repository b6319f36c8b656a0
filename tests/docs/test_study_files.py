"""The page on study files is correct: its study is valid, its lists are complete."""

import re
from pathlib import Path

import numpy as np

from probsysid.model.equations import FUNCTIONS
from probsysid.study.catalogue import NAMES, look_up
from probsysid.study.priors import FAMILIES, parse_prior
from probsysid.study.run import load_study
from probsysid.study.schema import DataSection, NoiseSection, SamplerSection, SolverSection

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
