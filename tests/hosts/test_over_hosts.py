"""One posterior, however many hosts filter the particles.

Here hosts are threads; tests/hosts/test_processes.py has real ones.
"""

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import probsysid as ps
from probsysid import dist, hosts
from probsysid.hosts.company import Company
from probsysid.smc import checkpoint
from probsysid.smc.proposals import MixtureDensity
from tests.hosts.companies import in_company

pytestmark = pytest.mark.filterwarnings("ignore::probsysid.ModelWarning")  # a sine fits no lag from rest

SAMPLES = 40
TIME = 0.1 * np.arange(SAMPLES)
RECORD = ps.Record(
    inputs={"u": np.sin(TIME)},
    outputs={"x": np.sin(TIME - 0.8) + 0.1 * np.random.default_rng(0).standard_normal(SAMPLES)},
    dt=0.1,
    intersample="linear",
)
lag = ps.Model({"x": 1}, lambda s, u, p: {"x": p.gain * u.u - s.x / p.tau})


def identify(**changes: Any) -> ps.Posterior:
    given = {
        "priors": {"gain": dist.LogNormal(0, 1), "tau": dist.LogNormal(0, 1)},
        "noise": {"x": dist.LogNormal(-2, 1)},
        "initial": {"x": 0.0},
        "solver": ps.Solver(substeps=1),
        "sampler": ps.Sampler(particles=64, islands=2),
    }
    return ps.identify(lag, RECORD, **{**given, **changes})


def assert_same(one: ps.Posterior, other: ps.Posterior) -> None:
    """The same decisions, and numbers equal up to rounding.

    Particles of one block are computed alike whatever the block's size, up to the order of vector instructions at its
    end; a rounding error of 1e-16 grows from proposal to proposal.  Another decision would differ by a hundredth.
    """
    np.testing.assert_allclose(one.theta, other.theta, rtol=0, atol=1e-7)
    np.testing.assert_allclose(one.weights, other.weights, rtol=1e-5)
    np.testing.assert_allclose(one.log_evidence, other.log_evidence, rtol=1e-9)
    counts = [[(r.sample, r.moves, r.moved, r.unique, r.kind) for r in p.history.rejuvenations] for p in (one, other)]
    assert counts[0] == counts[1]
    for mine, theirs in zip(one.errors, other.errors, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-6)


CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "automatic steps": {"solver": ps.Solver()},
    "all at once": {"sampler": ps.Sampler(particles=64, islands=2, path="likelihood")},
    "waste-free": {"sampler": ps.Sampler(particles=64, islands=2, chain=4)},
}


@pytest.mark.parametrize(
    ("case", "count"),
    [
        ("plain", 2),
        pytest.param("plain", 3, marks=pytest.mark.long),
        pytest.param("automatic steps", 2, marks=pytest.mark.long),
        pytest.param("all at once", 2, marks=pytest.mark.long),
        pytest.param("waste-free", 3, marks=pytest.mark.long),
    ],
)
def test_the_number_of_hosts_does_not_matter(case: str, count: int) -> None:
    expected = identify(**CASES[case])
    assert expected.history.rejuvenations
    found = in_company(count, lambda _: identify(**CASES[case]))
    for posterior in found:
        assert isinstance(posterior, ps.Posterior), posterior
        assert_same(posterior, expected)
        np.testing.assert_array_equal(posterior.theta, found[0].theta)
        assert posterior.history.rejuvenations == found[0].history.rejuvenations


def test_a_host_that_rounds_differently_follows_host_0(monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor of another kind may differ in the last bit of every decision."""
    original = MixtureDensity.sample

    def sample(self: MixtureDensity, random: np.random.Generator, count: int) -> np.ndarray:
        return original(self, random, count) * (1.0 if hosts.first() else 1 + 1e-14)

    monkeypatch.setattr(MixtureDensity, "sample", sample)
    one, other = in_company(2, lambda _: identify())
    assert isinstance(other, ps.Posterior), other
    np.testing.assert_array_equal(one.theta, other.theta)
    np.testing.assert_array_equal(one.weights, other.weights)


def test_hosts_with_different_problems_are_told() -> None:
    found = in_company(2, lambda company: identify(seed=company.index))
    for error in found:
        assert isinstance(error, ps.InputError)
        assert "host 1 has another problem than host 0" in str(error)


def test_when_sampling_fails_it_fails_on_all_and_they_go_on() -> None:
    impossible = {"initial": {"x": 1e200}, "noise": {"x": 1e-200}}

    def work(_: Company) -> tuple[str, ps.Posterior]:
        with pytest.raises(ps.SamplingError) as caught:
            identify(**impossible)
        return str(caught.value), identify()

    (one, first), (other, second) = in_company(2, work)
    assert one == other and "lost" in one
    np.testing.assert_array_equal(first.theta, second.theta)


def test_a_lost_host_leaves_a_checkpoint_that_any_number_can_go_on_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_module("probsysid.inference.identify"), "CHECKPOINT_SECONDS", 0.0)
    path = tmp_path / "run.npz"

    def work(company: Company) -> ps.Posterior:
        def leave_in_the_middle(run: Any, _: Any) -> None:
            if run.samples > SAMPLES // 2 and not company.first:
                raise OSError("the machine room is on fire")

        return identify(checkpoint=path if company.first else None, notice=leave_in_the_middle)

    first, second = in_company(2, work)
    assert isinstance(second, OSError)
    assert isinstance(first, hosts.HostError)
    assert str(first) == "host 1 has stopped: the machine room is on fire"
    saved, _, _ = checkpoint.unpack(path)
    assert SAMPLES // 2 < saved.samples < SAMPLES
    content = path.read_bytes()
    expected = identify()
    assert_same(identify(checkpoint=path), expected)
    path.write_bytes(content)
    for posterior in in_company(2, lambda company: identify(checkpoint=path if company.first else None)):
        assert isinstance(posterior, ps.Posterior), posterior
        assert_same(posterior, expected)


@pytest.mark.long
def test_outside_of_identify_a_host_is_alone() -> None:
    """No host has to wait for another when it looks at its posterior."""

    def work(company: Company) -> Any:
        posterior = identify()
        return posterior.uncertainty() if company.first else None

    first, second = in_company(2, work)
    assert second is None
    assert first.equals(identify().uncertainty())
