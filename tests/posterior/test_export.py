"""Posteriors for other tools."""

from dataclasses import replace
from pathlib import Path

import arviz as az
import numpy as np
import pandas as pd
import pytest
from scipy.io import loadmat

import probsysid as ps
from probsysid.posterior.export import matlab_name
from tests.posterior.tiny import tiny_posterior


@pytest.fixture
def uneven() -> ps.Posterior:
    posterior = tiny_posterior()
    return replace(posterior, weights=np.arange(1.0, 9.0) / 36)


def test_a_frame_has_every_particle_with_its_weight(uneven: ps.Posterior) -> None:
    frame = uneven.to_dataframe()
    assert list(frame.columns) == ["a", "b", "weight"] and len(frame) == 8
    assert frame["a"] @ frame["weight"] == pytest.approx(uneven.mean("a"), rel=1e-12)
    assert frame.attrs["units"] == {"a": "1/s"}


def test_draws_are_equally_weighted(uneven: ps.Posterior) -> None:
    frame = uneven.to_dataframe(3600)
    counts = [int(np.sum(frame["b"] == value)) for value in uneven.values["b"]]
    # systematic resampling: within one of 3600 times the weight
    assert np.max(np.abs(np.array(counts) - 100 * np.arange(1, 9))) <= 1
    assert frame["weight"].sum() == pytest.approx(1)


def test_csv_keeps_all_digits(uneven: ps.Posterior, tmp_path: Path) -> None:
    uneven.to_csv(tmp_path / "p.csv")
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "p.csv"), uneven.to_dataframe(), check_exact=True)


def test_matlab(uneven: ps.Posterior, tmp_path: Path) -> None:
    uneven.to_matlab(tmp_path / "p.mat")
    found = loadmat(tmp_path / "p.mat", simplify_cells=True)
    np.testing.assert_array_equal(found["values"]["a"], uneven.values["a"])
    np.testing.assert_array_equal(found["weights"], uneven.weights)
    assert list(found["names"]) == ["a", "b"] and found["units"][0] == "1/s"
    assert found["mean"][1] == uneven.mean("b") and found["log_evidence"] == uneven.log_evidence


@pytest.mark.parametrize(
    ("name", "field"), [("noise.y", "noise_y"), ("k[0]", "k_0"), ("k[0,1]", "k_0_1"), ("_a", "q_a")]
)
def test_names_that_matlab_allows(name: str, field: str) -> None:
    assert matlab_name(name) == field


def test_names_that_matlab_cannot_tell_apart_are_refused(uneven: ps.Posterior, tmp_path: Path) -> None:
    same = replace(uneven, values={"k.a": uneven.values["a"], "k_a": uneven.values["b"]})
    with pytest.raises(ps.InputError, match="both called 'k_a' in MATLAB"):
        same.to_matlab(tmp_path / "p.mat")


def test_populations_are_the_chains_of_arviz(uneven: ps.Posterior) -> None:
    """Two populations of four particles; where the second lies elsewhere, r_hat says so."""
    values = np.concatenate([np.arange(4.0), 100 + np.arange(4.0)])
    apart = replace(uneven, values={"a": values, "b": values % 100}, weights=np.full(8, 1 / 8))
    data = apart.to_arviz(400, log_likelihood=False)
    assert data.posterior["a"].shape == (2, 200)
    assert [set(chain) for chain in data.posterior["a"].values] == [set(values[:4]), set(values[4:])]
    # b is the same in both: halves of 100 draws in random order differ by 1 / 100 of the variance
    found = az.rhat(data)
    assert float(found["a"]) > 1.5 and float(found["b"]) < 1.02
    one = replace(apart, evidence_by_population=np.array([-3.0])).to_arviz(400, log_likelihood=False)
    assert one.posterior["a"].shape == (1, 400)
