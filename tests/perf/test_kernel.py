"""The timing scripts run; what they measure is not tested here."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "perf"


@pytest.mark.long
def test_the_kernel_is_timed_beside_c(tmp_path: Path) -> None:
    command = [
        sys.executable,
        str(FOLDER / "kernel.py"),
        "--no-peers",
        "--rounds",
        "1",
        "--json",
        str(tmp_path / "out"),
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    found = json.loads((tmp_path / "out").read_text())
    for problem in ("duffing", "bouc_wen"):
        assert found[problem]["ours"] > 0
        assert found[problem]["rk4"] > 0
        assert set(found[problem]) >= {"c", "probdiffeq", "rodeo", "compile_seconds"}
