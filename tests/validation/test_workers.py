"""Runs of a study on the workers of a cluster."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from validation.workers import ROOT, each

SCRIPT = """
import json
from validation.honesty.study import run_named
from validation.workers import each, opened

calls = [("duffing", "gold", 0, 0), ("duffing", "gold", 0, 1)]
if __name__ == "__main__":
    with opened("local:2") as cluster:
        there = dict(each(run_named, calls, cluster))
    here = dict(each(run_named, calls))
    print(json.dumps([[runs[k]["quantities"] for k in range(2)] for runs in (here, there)]))
"""


def test_without_a_cluster_calls_are_made_in_turn() -> None:
    assert list(each(math.gcd, [(12, 18), (7, 5)])) == [(0, 6), (1, 1)]


@pytest.mark.long
def test_workers_give_the_same_results_as_this_process(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, script],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
        check=True,
    )
    here, there = json.loads(done.stdout.splitlines()[-1])
    assert here == there
    assert here[0] != here[1]
