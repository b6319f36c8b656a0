"""`probsysid live`: from a study file and a source to files."""

import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import probsysid as ps
from tests.live import lag
from tests.study.shell import call

SAMPLES = 60


@pytest.fixture
def study(tmp_path: Path) -> Path:
    (tmp_path / "rig.toml").write_text(lag.STUDY)
    lag.write_csv(tmp_path / "lag.csv", lag.measure(SAMPLES))
    return tmp_path / "rig.toml"


def test_a_replay_ends_with_results(study: Path) -> None:
    lines = study.with_name("lines.jsonl")
    source = f"replay:{study.with_name('lag.csv')}"
    answer = call("live", study, "--source", source, "--speed", 0, "--no-page", "--no-report", "--json", lines)
    assert answer.exit_code == 0, answer.stderr
    folder = study.with_name("rig-live")
    assert "60 samples. Results in" in answer.stderr
    posterior = ps.Posterior.load(folder / "posterior.nc")
    lag.assert_identical(posterior, lag.stream_posterior(lag.measure(SAMPLES)))
    last = json.loads(lines.read_text().splitlines()[-1])
    assert last["accepted"] == SAMPLES
    assert last["models"]["lag"]["parameters"]["a"]["q05"] < lag.RATE < last["models"]["lag"]["parameters"]["a"]["q95"]
    again = call("live", study, "--source", source, "--speed", 0, "--no-page")
    assert again.exit_code == 2 and "--resume" in again.stderr


def test_a_stream_with_a_window_keeps_so_many_samples(study: Path) -> None:
    lag.write_csv(study.with_name("lag.csv"), lag.measure(300))
    source = f"replay:{study.with_name('lag.csv')}"
    answer = call("live", study, "--source", source, "--speed", 0, "--no-page", "--window", 64)
    assert answer.exit_code == 0, answer.stderr
    assert "no report of lag could be written: this posterior has no records" in answer.stderr
    (checkpoint,) = study.with_name("rig-live").glob("checkpoint-*.npz")
    assert 300 - 2 * 64 - 1 <= ps.Identifier.load(checkpoint).first_kept <= 300 - 64


@pytest.mark.long
def test_the_end_of_a_stream_has_a_report(study: Path) -> None:
    answer = call("live", study, "--source", f"replay:{study.with_name('lag.csv')}", "--speed", 0, "--no-page")
    assert answer.exit_code == 0, answer.stderr
    assert "<html" in (study.with_name("rig-live") / "report.html").read_text()


def test_stopped_by_a_signal_it_says_how_to_go_on(study: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = [str(study), "--source", f"tcp://:{port}", "--dt", "0.1", "--no-page"]
    process = subprocess.Popen(
        [sys.executable, "-m", "probsysid", "live", *arguments], stderr=subprocess.PIPE, text=True
    )
    rows = lag.measure(SAMPLES)
    send(port, rows[:30])
    process.send_signal(signal.SIGTERM)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert "30 samples are saved. To go on: probsysid live" in stderr and stderr.rstrip().endswith("--resume")
    lag.write_csv(study.with_name("rest.csv"), rows)
    source = f"replay:{study.with_name('rest.csv')}"
    answer = call("live", study, "--source", source, "--speed", 0, "--dt", 0.1, "--no-page", "--no-report", "--resume")
    assert answer.exit_code == 0, answer.stderr
    posterior = ps.Posterior.load(study.with_name("rig-live") / "posterior.nc")
    lag.assert_identical(posterior, lag.stream_posterior(rows))


def send(port: int, rows: np.ndarray) -> None:
    """Send lines and wait until all are acknowledged."""
    end = time.monotonic() + 60
    while True:
        try:
            sender = socket.create_connection(("127.0.0.1", port))
            break
        except OSError:
            assert time.monotonic() < end
            time.sleep(0.1)
    with sender, sender.makefile("rwb") as file:
        for t, u, y in rows.tolist():
            file.write(f"{t!r},{u!r},{y!r}\n".encode())
        file.flush()
        while file.readline() != f"ok {len(rows)}\n".encode():
            pass


@pytest.mark.parametrize(
    ("changes", "options", "sentence"),
    [
        ((), ("--source", "ftp://x"), "known are FILE.csv"),
        ((("noise = { level = 0.02 }\n", ""),), ("--source", "-"), "give the level of 'level'"),
        ((('"zoh"', '"bandlimited"'),), ("--source", "-"), "needs data of the future"),
        ((('file = "lag.csv"', 'file = "none.csv"'),), ("--source", "-"), "give it with --dt"),
        ((), ("--source", "-", "--gaps", "guess"), "gaps is 'guess'"),
        ((), ("--source", "-", "--resume"), "there is nothing to resume"),
        ((), ("--source", "-", "--address", "0.0.0.0"), "PROBSYSID_TOKEN has 5"),
    ],
)
def test_a_mistake_is_one_sentence_before_anything_is_written(
    changes: tuple, options: tuple, sentence: str, study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROBSYSID_TOKEN", "short")
    text = lag.STUDY
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    study.write_text(text)
    answer = call("live", study, *options)
    assert answer.exit_code == 2
    assert sentence in answer.stderr.replace("\n", " ")
    assert not study.with_name("rig-live").exists()
