"""Posteriors on disk: read back as they were written, or refused in one sentence."""

import os
import pickle
import re
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest

import probsysid as ps
from probsysid._internal.files import sealed
from probsysid.model.problem import Problem
from probsysid.posterior.settings import Setup
from probsysid.posterior.storage import FORMAT, to_dataset
from tests import duffing
from tests.damage import damaged_copies
from tests.posterior.tiny import PRIORS, RECORD, tiny_posterior, tiny_with_model


def test_damage_of_any_kind_is_one_sentence(tmp_path: Path) -> None:
    """Every byte is under the digest: no damaged file is read, and none ends in an error of a library."""
    path = tmp_path / "posterior.nc"
    tiny_posterior().save(path)
    whole = path.read_bytes()
    for what, content in damaged_copies(whole, 200):
        path.write_bytes(content)
        with pytest.raises(ps.InputError) as caught:
            ps.Posterior.load(path)
        assert str(caught.value).startswith(f"{path} is not a saved posterior, or is damaged: "), what
        assert "\n" not in str(caught.value)
    path.write_bytes(whole)
    np.testing.assert_array_equal(ps.Posterior.load(path).theta, tiny_posterior().theta)


def test_another_format_is_named(tmp_path: Path) -> None:
    path = tmp_path / "posterior.nc"
    content = bytes(to_dataset(tiny_posterior()).assign_attrs(format=99).to_netcdf(engine="h5netcdf"))
    path.write_bytes(sealed(content))
    with pytest.raises(ps.InputError, match=f"has posterior format 99; this version reads {FORMAT}"):
        ps.Posterior.load(path)
    path.write_bytes(content)  # as formats 1 and 2 were: without a digest
    with pytest.raises(ps.InputError, match="an earlier version has written it"):
        ps.Posterior.load(path)


def test_other_sealed_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "posterior.nc"
    for content in (b"", b"PK", bytes(to_dataset(tiny_posterior()).drop_vars("theta").to_netcdf(engine="h5netcdf"))):
        path.write_bytes(sealed(content))
        with pytest.raises(ps.InputError, match="is not a saved posterior"):
            ps.Posterior.load(path)
    with pytest.raises(ps.InputError, match=r"is not a saved posterior \(Is a directory\)"):
        ps.Posterior.load(tmp_path)


def test_the_model_the_priors_and_the_records_come_with_it(tmp_path: Path) -> None:
    posterior = tiny_with_model()
    posterior.save(tmp_path / "p.nc")
    loaded = ps.Posterior.load(tmp_path / "p.nc")
    assert loaded.setup.known and loaded.setup.solver == posterior.setup.solver
    assert loaded.setup.problem.model.parameter_names == ("a", "b")
    assert loaded.table().equals(posterior.table())
    (record,) = loaded.records
    assert repr(record) == repr(RECORD)
    np.testing.assert_array_equal(record.outputs["level"], RECORD.outputs["level"])
    for level in (0.5, 0.9):
        assert loaded.predict(RECORD, level=level).equals(posterior.predict(RECORD, level=level))
    states, before = loaded.states(draws=4), posterior.states(draws=4)
    np.testing.assert_array_equal(states.mean["h"], before.mean["h"])
    loaded.save(tmp_path / "again.nc")  # without having been asked for its model
    assert ps.Posterior.load(tmp_path / "again.nc").table().equals(posterior.table())


@pytest.mark.parametrize("intersample", ["zoh", "linear", "bandlimited", "periodic"])
def test_a_slice_of_a_record_keeps_the_inputs_of_the_whole(tmp_path: Path, intersample: str) -> None:
    inputs = {"u": np.random.default_rng(0).standard_normal(20)}
    part = ps.Record(inputs, {"level": np.zeros(20)}, dt=0.1, start=3.0, intersample=intersample)[4:9]
    replace(tiny_with_model(), records=(part, RECORD)).save(tmp_path / "p.nc")
    found, other = ps.Posterior.load(tmp_path / "p.nc").records
    np.testing.assert_array_equal(found.input_grid(3), part.input_grid(3))
    np.testing.assert_array_equal(found.input_derivatives(2), part.input_derivatives(2))
    np.testing.assert_array_equal(found.time, part.time)
    assert found.intersample == part.intersample and other.name == "steps"


def test_what_is_code_is_given_again(tmp_path: Path) -> None:
    """A model with a loop and an input that is a function are not stored; numbers can be read without them."""
    loop = ps.Model(
        {"h": 1},
        lambda s, u, p: {"h": jax.lax.fori_loop(0, 2, lambda i, x: x / 2, p.a * (p.b * u.u - s.h))},
        lambda s, u, p: {"level": s.h},
    )
    problem = Problem.make(loop, PRIORS, {"level": 0.1}, [{"h": 0.0}], None)
    moving = ps.Record({"u": np.sin}, {"level": np.zeros(5)}, dt=0.1)
    posterior = replace(tiny_posterior(), setup=Setup((problem, ps.Solver(substeps=1))), records=(moving,))
    posterior.save(tmp_path / "p.nc")
    loaded = ps.Posterior.load(tmp_path / "p.nc")
    assert loaded.mean("a") == posterior.mean("a") and len(loaded.table()) == 2
    with pytest.raises(ps.InputError, match=r"saved without its model, since the operation .* model=\.\.\."):
        loaded.simulate(RECORD)
    with pytest.raises(ps.InputError, match=r"has no records.*records=\.\.\."):
        loaded.states()
    whole = ps.Posterior.load(tmp_path / "p.nc", model=loop, records=moving)
    np.testing.assert_array_equal(whole.states(draws=2).mean["h"], posterior.states(draws=2).mean["h"])
    with pytest.raises(ps.InputError, match="the model given has the coordinates"):
        ps.Posterior.load(tmp_path / "p.nc", model=duffing.model)


class Spy:
    """Would leave a trace if it were ever unpickled."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("unpickled",)


def test_no_code_is_run_whatever_a_file_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pickles in every place of the file: they are numbers of no meaning, and stay so."""
    monkeypatch.chdir(tmp_path)
    pickled = pickle.dumps(Spy(), protocol=0)  # which is text
    dataset = to_dataset(tiny_with_model())
    for attribute in ("setup", "records", "settings", "names", "rejuvenations", "rebased"):
        changed = dataset.assign_attrs({attribute: pickled.decode("ascii")})
        changed["setup"] = ("byte", np.frombuffer(pickled, dtype=np.uint8))
        Path("p.nc").write_bytes(sealed(bytes(changed.to_netcdf(engine="h5netcdf"))))
        with pytest.raises(ps.InputError):
            loaded = ps.Posterior.load("p.nc")
            loaded.table()
    assert not Path("unpickled").exists()


def test_forged_files_whose_parts_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    dataset, path = to_dataset(tiny_with_model()), tmp_path / "p.nc"
    changes = [
        {"weights": ("particle", np.full(8, 1.0))},
        {"weights": ("particle", np.full(8, np.nan))},
        {"theta": (("dimension", "other"), np.zeros((2, 5)))},
        {"value:a": ("other", np.zeros(5))},
        {"weights": ("letter", np.array(["a", "b"]))},
    ]
    for change in changes:
        path.write_bytes(sealed(bytes(dataset.drop_vars(list(change)).assign(change).to_netcdf(engine="h5netcdf"))))
        with pytest.raises(ps.InputError, match="is not a saved posterior"):
            ps.Posterior.load(path)


def test_nothing_in_the_package_unpickles() -> None:
    """But for what the workers of a cluster exchange: Dask runs what it is sent anyway."""
    source = Path(ps.__file__).parent
    for path in source.rglob("*.py"):
        if path.relative_to(source) == Path("parallel/published.py"):
            continue
        assert not re.search(r"pickle\.loads?\(|import (cloud)?pickle|allow_pickle=True", path.read_text()), path
