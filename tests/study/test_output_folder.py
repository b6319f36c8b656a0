"""Folders of results: one run at a time, complete or absent."""

import errno
import os
from pathlib import Path
from typing import NoReturn

import pytest

import probsysid as ps
from probsysid.study import output_folder, run
from tests.study.shell import Answer, call
from tests.study.small import write_study


@pytest.mark.parametrize("option", [None, "--resume", "--overwrite"])
def test_a_second_run_is_refused_at_once(tmp_path: Path, option: str | None) -> None:
    """Whatever it was asked to do with what it finds, and by whatever name it calls the folder."""
    study = write_study(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "out.unfinished").mkdir()
    before = sorted(tmp_path.rglob("*"))
    with output_folder.held(tmp_path / "out"):
        for out in (tmp_path / "out", tmp_path / "link" / "out"):
            answer = call("fit", study, "--out", out, *([option] if option else []))
            assert answer.exit_code == 2
            assert answer.stderr == (
                f"probsysid: another run is writing to {out}; wait for it, or choose another folder with --out.\n"
            )
    assert sorted(tmp_path.rglob("*")) == before


def test_the_lock_is_held_from_the_first_check_to_the_last_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = write_study(tmp_path)
    found: list[Answer] = []

    def fails(*_: object, **__: object) -> NoReturn:
        found.append(call("fit", study, "--overwrite"))
        raise ps.SamplingError("enough of it.")

    monkeypatch.setattr(run, "fit", fails)
    assert call("fit", study).exit_code == 1
    assert "another run is writing to" in found[0].stderr
    assert {p.name for p in tmp_path.iterdir()} == {"lag.csv", "lag.toml"}


def test_the_report_is_not_written_into_a_run(tmp_path: Path) -> None:
    with output_folder.held(tmp_path / "out"):
        assert "another run is writing to" in call("report", tmp_path / "out").stderr


def test_folders_made_for_the_lock_go_with_it(tmp_path: Path) -> None:
    with output_folder.held(tmp_path / "new" / "deep" / "out"):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", ".", "/"])
def test_a_folder_without_a_name_is_refused(tmp_path: Path, name: str) -> None:
    assert "name another with --out" in call("fit", write_study(tmp_path), "--out", name).stderr


def test_links_to_nothing_are_refused_before_the_run(tmp_path: Path) -> None:
    study, link = write_study(tmp_path), tmp_path / "link"
    link.symlink_to(tmp_path / "absent")
    for option in ("--out", "--json"):
        answer = call("fit", study, option, link)
        assert (
            answer.exit_code == 2
            and f"{link} is a link to {tmp_path / 'absent'}, which does not exist" in answer.stderr
        )
    assert link.is_symlink() and not (tmp_path / "absent").exists()


def test_a_folder_that_cannot_be_replaced_is_refused_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out").mkdir()
    monkeypatch.setattr(os.path, "ismount", lambda _: True)
    answer = call("fit", write_study(tmp_path), "--out", tmp_path / "out")
    assert answer.exit_code == 2 and "since a disk is mounted there" in answer.stderr


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EFBIG, errno.EDQUOT])
def test_a_full_disk_is_a_sentence_with_the_way_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    study = write_study(tmp_path)

    def full(*_: object, **__: object) -> NoReturn:
        raise OSError(code, os.strerror(code), "lag.npz")

    monkeypatch.setattr(run, "fit", full)
    answer = call("fit", study)
    assert answer.exit_code == 3
    reason = os.strerror(code).lower()
    assert answer.stderr == (
        f"probsysid: writing ended at lag.npz: {reason}. Once that is solved, go on: probsysid fit {study} --resume\n"
    )
