"""The folder of a live run: the journal, checkpoints, and at the end posteriors and reports."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from probsysid._internal.errors import InputError
from probsysid.live.alignment import Released, Restart, Rows
from probsysid.live.journal import Event, Journal

JOURNAL = "journal.bin"


class Earlier(NamedTuple):
    """What an earlier run has left."""

    released: list[Released]
    """All samples and new starts that were accepted."""
    present: list[Released]
    """Those of the present segment, and further ones that were not processed."""
    first: int
    """Index of its first sample among all."""
    restarts: int
    """New starts that were made."""
    arguments: Mapping[str, Any]
    """Of the newest one, by model; empty if there was none."""
    past: Mapping[str, float]
    """Log evidence of the segments before, by model."""


def prepare(folder: Path, *, resume: bool, overwrite: bool) -> None:
    """Make the folder, or say why not."""
    there = (folder / JOURNAL).exists()
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; choose another folder with --out.")
    if resume and not there:
        raise InputError(f"there is nothing to resume: {folder / JOURNAL} does not exist.")
    if there and not resume and not overwrite:
        raise InputError(f"{folder} holds a live run; go on with --resume, or throw it away with --overwrite.")
    if folder.exists() and not there and any(folder.iterdir()):
        raise InputError(f"{folder} exists and holds something else than a live run; choose another with --out.")
    if there and overwrite and not resume:
        shutil.rmtree(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"nothing can be written to {folder}: {(error.strerror or str(error)).lower()}.") from None


def read_back(journal: Journal) -> Earlier:
    """The samples of a journal, cut at the new starts that were made.

    A gap is written down when it comes, the new start that it leads to when it is processed; a new start after an alarm
    names the sample it begins with.
    """
    released: list[Released] = []
    made: list[dict[str, Any]] = []
    for entry in journal.entries():
        if isinstance(entry, Event):
            if entry.content.get("kind") == "restart":
                made.append(entry.content)
        else:
            released.append(entry)
    if not made:
        return Earlier(released, released, 0, 0, {}, {})
    newest = made[-1]
    first = int(newest["sample"])
    present = _after(released, first, int(newest["gaps"]))
    return Earlier(released, present, first, len(made), newest["arguments"], newest["past"])


def _after(released: list[Released], first: int, gaps: int) -> list[Released]:
    """What comes after so many samples and new starts because of gaps."""
    found: list[Released] = []
    count = starts = 0
    for item in released:
        if isinstance(item, Restart):
            starts += 1
            if starts > gaps:
                found.append(item)
            continue
        skipped = min(max(first - count, 0), len(item.time))
        count += len(item.time)
        if skipped < len(item.time):
            found.append(Rows(item.time[skipped:], np.asarray(item.values)[skipped:]))
    return found
