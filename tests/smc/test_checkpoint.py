"""Runs on disk: nothing is lost on the way, and nothing foreign or broken is taken for one."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from probsysid import InputError, Sampler
from probsysid._internal.files import locked, sealed, write_atomically
from probsysid.smc import checkpoint, ibis
from probsysid.smc.history import History
from tests.damage import damaged_copies
from tests.smc.conjugate import Regression

SAMPLER = Sampler(particles=64, islands=2)
TARGET = Regression.simulated(samples=12).target()


def run_until(
    stop: int, run: ibis.IBISState | None = None, history: History | None = None
) -> tuple[ibis.IBISState, History]:
    run = ibis.start(TARGET, SAMPLER, 1) if run is None else run
    history = History(2) if history is None else history
    while run.samples < stop:
        run, step = ibis.step(run, TARGET, SAMPLER)
        history.add(step)
    return run, history


def assert_same(one: tuple[ibis.IBISState, History], other: tuple[ibis.IBISState, History]) -> None:
    for name in ("theta", "log_weights", "log_likelihood", "base_evidence", "state"):
        np.testing.assert_array_equal(getattr(one[0], name), getattr(other[0], name))
    for name in ("samples", "seed", "stride", "work", "lost"):
        assert getattr(one[0], name) == getattr(other[0], name)
    np.testing.assert_array_equal(one[1].ess, other[1].ess)
    np.testing.assert_array_equal(one[1].evidence, other[1].evidence)
    assert one[1].rejuvenations == other[1].rejuvenations


@pytest.mark.parametrize("stop", [0, 1, 6])
def test_a_run_goes_on_as_if_it_had_not_been_written(tmp_path: Path, stop: int) -> None:
    run, history = run_until(stop)
    path = tmp_path / "run.npz"
    extra = {"note": np.array([1.0, np.nan])}
    write_atomically(path, checkpoint.pack(run, history, "mark", extra))
    loaded, log, more = checkpoint.unpack(path, "mark")
    np.testing.assert_array_equal(more["note"], extra["note"])
    assert_same(run_until(12, loaded, log), run_until(12))


def test_a_foreign_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    write_atomically(path, checkpoint.pack(*run_until(3), "one"))
    with pytest.raises(InputError, match=r"run\.npz belongs to another problem: the model, priors, data"):
        checkpoint.unpack(path, "another")
    checkpoint.unpack(path)


@pytest.mark.parametrize("keep", [0, 10, 500, 0.5, 0.99, -1])
def test_a_cut_one_is_named(tmp_path: Path, keep: Any) -> None:
    content = checkpoint.pack(*run_until(3), "mark")
    path = tmp_path / "run.npz"
    path.write_bytes(content[: int(keep * len(content)) if isinstance(keep, float) else keep])
    with pytest.raises(InputError, match=r"run\.npz is not a checkpoint, or is damaged"):
        checkpoint.unpack(path)


def test_damage_of_any_kind_is_one_sentence(tmp_path: Path) -> None:
    """Every byte is under the digest: no damaged file is read, and none ends in an error of a library."""
    path = tmp_path / "run.npz"
    for what, content in damaged_copies(checkpoint.pack(*run_until(3), "mark"), 200):
        path.write_bytes(content)
        with pytest.raises(InputError, match="is not a checkpoint, or is damaged") as caught:
            checkpoint.unpack(path)
        assert "\n" not in str(caught.value), what


def test_other_archives_are_named(tmp_path: Path) -> None:
    path = tmp_path / "other.npz"
    np.savez(path, theta=np.zeros(3))
    with pytest.raises(InputError, match="not a checkpoint"):
        checkpoint.unpack(path)
    np.savez(path, theta=np.array([{"a": 1}], dtype=object))
    with pytest.raises(InputError, match="not a checkpoint"):
        checkpoint.unpack(path)
    with open(path, "wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(InputError, match="not a checkpoint"):
        checkpoint.unpack(path)
    with pytest.raises(InputError, match=r"not a checkpoint.*No such file"):
        checkpoint.unpack(tmp_path / "absent.npz")


def test_another_format_is_named(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    path.write_bytes(checkpoint.pack(*run_until(1), "mark"))
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    scalars = json.loads(bytes(arrays["scalars"])) | {"format": 99}
    np.savez(path, **arrays | {"scalars": np.frombuffer(json.dumps(scalars).encode(), dtype=np.uint8)})
    with pytest.raises(InputError, match="an earlier version has written it"):
        checkpoint.unpack(path)
    path.write_bytes(sealed(path.read_bytes()))
    with pytest.raises(InputError, match="has checkpoint format 99; this version reads"):
        checkpoint.unpack(path)


@pytest.mark.parametrize("name", ["theta", "log_weights", "scalars", "ess", "base_evidence"])
def test_forged_ones_without_a_part_are_named(tmp_path: Path, name: str) -> None:
    path = tmp_path / "run.npz"
    path.write_bytes(checkpoint.pack(*run_until(1), "mark"))
    with np.load(path) as file:
        arrays = {key: file[key] for key in file.files if key != name}
    np.savez(path, **arrays)
    path.write_bytes(sealed(path.read_bytes()))
    with pytest.raises(InputError, match="not a checkpoint"):
        checkpoint.unpack(path)


def test_the_lock_is_released(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "run.npz"
    with locked(path), pytest.raises(InputError, match="in use"), locked(path):
        pass
    with locked(path):
        pass
