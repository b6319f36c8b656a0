"""Posteriors on disk: read back as they were written, or refused in one sentence."""

from pathlib import Path

import numpy as np
import pytest

import probsysid as ps
from probsysid._internal.files import sealed
from probsysid.posterior.storage import FORMAT, to_dataset
from tests.damage import damaged_copies
from tests.posterior.tiny import tiny_posterior


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
