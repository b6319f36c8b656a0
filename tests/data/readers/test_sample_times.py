"""Time axes from columns of times: rounding, jitter, gaps and dates."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from probsysid import InputError, Record
from probsysid.data.readers import read_record
from tests.data.readers.files import CHANNELS, write


def record_with(
    tmp_path: Path, time: np.ndarray, digits: str = ".17g", **options: Any
) -> tuple[Record, tuple[str, ...]]:
    lines = [f"{t:{digits}},0,0" for t in time]
    return read_record(write(tmp_path / "a.csv", "t,F,x\n" + "\n".join(lines)), time="t", **CHANNELS, **options)


def four_standard_errors(amplitude: float, count: int) -> float:
    """Of the step fitted by least squares to times with errors uniform in plus or minus `amplitude`."""
    return 4 * amplitude / np.sqrt(3) * np.sqrt(12 / count**3)


def test_rounded_times_are_uniform(tmp_path: Path) -> None:
    exact = np.arange(400) / 610.35
    record, notes = record_with(tmp_path, exact, ".4f")
    assert record.dt == pytest.approx(1 / 610.35, abs=four_standard_errors(5e-5, 400))
    assert "taken as uniform" in notes[0]


def test_small_jitter_is_removed_and_large_jitter_kept(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    grid, noise = 0.01 * np.arange(300), random.uniform(-1, 1, 300)
    small, notes = record_with(tmp_path, grid + 5e-5 * noise)
    assert small.dt == pytest.approx(0.01, abs=four_standard_errors(5e-5, 300)) and "taken as uniform" in notes[0]
    large, notes = record_with(tmp_path, grid + 2e-3 * noise)
    assert large.dt is None and "kept as it is" in notes[0]
    forced, _ = record_with(tmp_path, grid + 2e-3 * noise, jitter="remove")
    assert forced.dt == pytest.approx(0.01, abs=four_standard_errors(2e-3, 300))


def test_gaps_are_counted(tmp_path: Path) -> None:
    time = np.delete(0.01 * np.arange(300), [50, 51, 200])
    record, notes = record_with(tmp_path, time)
    assert record.dt is None and "with 2 gaps" in notes[0]
    with pytest.raises(InputError, match="cannot be taken as uniform"):
        record_with(tmp_path, time, jitter="remove")


def test_dates(tmp_path: Path) -> None:
    stamps = pd.date_range("2024-03-01 12:00", periods=4, freq="250ms")
    lines = "".join(f"{stamp.isoformat()},0,0\n" for stamp in stamps)
    record, _ = read_record(write(tmp_path / "a.csv", "t,F,x\n" + lines), time="t", **CHANNELS)
    assert record.dt == pytest.approx(0.25)
    assert record.time[0] == 0
