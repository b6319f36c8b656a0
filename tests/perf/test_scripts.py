"""The longer timing scripts run on small sizes; what they measure is not tested here."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "perf"


def figures(path: Path, *command: str) -> dict:
    subprocess.run(
        [sys.executable, str(FOLDER / command[0]), *command[1:], "--json", str(path)],
        check=True,
        capture_output=True,
        timeout=900,
    )
    return json.loads(path.read_text())


@pytest.mark.long
def test_ours_agrees_with_the_reference(tmp_path: Path) -> None:
    found = figures(tmp_path / "out", "end_to_end.py", "--peer", "none", "--samples", "100", "--particles", "512")
    assert found["methods"]["probsysid"]["agrees"]
    assert found["best_peer_over_ours"]["seconds_per_effective"] == {"peer": None, "ratio": None}


@pytest.mark.long
def test_growth_is_measured(tmp_path: Path) -> None:
    parts = ("--part", "sweep", "--part", "identify", "--part", "afterwards", "--part", "online")
    found = figures(tmp_path / "out", "scaling.py", "--quick", *parts)
    assert set(found["sweep"]["slopes"]) == {"particles", "samples", "state"}
    assert found["sweep"]["speed_up"] and found["identify"]["speed_up"]
    assert found["identify"]["particles"] and found["identify"]["samples"] and found["identify"]["parameters"]
    assert set(found["afterwards"]["slopes"]) == {"states", "simulate", "refined", "log likelihood"}
    assert found["online"]["bytes_per_sample"]["file_bytes"] > 0
