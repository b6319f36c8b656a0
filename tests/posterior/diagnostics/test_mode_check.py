"""Lost modes: on two Gaussians of known mass, with particles in one of them or in both."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from probsysid.posterior.diagnostics.mode_check import (
    WITHIN,
    LostMode,
    MAPEstimate,
    ModeCheck,
    is_lost,
    mass_around,
    suspects,
    weight_around,
)
from probsysid.posterior.diagnostics.sampling_check import SamplingCheck
from probsysid.posterior.modes import Mode

DIMENSION, COUNT, SHARE = 3, 1000, 0.2
CENTRES = np.array([[0.0, 0.0, 0.0], [8.0, -3.0, 1.0]])
FACTOR = np.array([[1.0, 0, 0], [0.5, 0.3, 0], [-0.2, 0.1, 2.0]])
LOG_EVIDENCE = -50.0
WEIGHTS = np.full(COUNT, 1 / COUNT)


def log_target(theta: np.ndarray) -> np.ndarray:
    """Two Gaussians with masses of 0.8 and 0.2 of exp(-50)."""
    logs = [
        np.log(share) + stats.multivariate_normal(centre, FACTOR @ FACTOR.T).logpdf(theta.T)
        for share, centre in zip((1 - SHARE, SHARE), CENTRES, strict=True)
    ]
    return LOG_EVIDENCE + np.logaddexp(*logs)


def modes() -> list[Mode]:
    return [Mode(centre, float(log_target(centre[:, None])), FACTOR, True) for centre in CENTRES]


def particles(share: float, seed: int = 0) -> np.ndarray:
    """Draws with a share in the second mode."""
    random = np.random.default_rng(seed)
    which = (np.arange(COUNT) < share * COUNT).astype(int)
    return CENTRES[which].T + FACTOR @ random.standard_normal((DIMENSION, COUNT))


def test_a_mode_without_particles_is_suspect_and_only_that() -> None:
    found = suspects(modes(), particles(0.0), WEIGHTS, effective=500.0)
    assert [tuple(mode.theta) for mode in found] == [tuple(CENTRES[1])]
    assert suspects(modes(), particles(SHARE), WEIGHTS, effective=500.0) == []
    assert suspects(modes(), particles(SHARE / 3), WEIGHTS, effective=500.0) == []  # drifted, not lost


def test_few_effective_particles_may_miss_a_small_mode_by_chance() -> None:
    """A mode with 6 % of the mass, 5.4 % in its neighbourhood: one of 20 effective particles, eleven of 200."""
    small = replace(modes()[1], log_density=modes()[1].log_density - np.log(SHARE / 0.06))
    both = [modes()[0], small]
    assert suspects(both, particles(0.0), WEIGHTS, effective=20.0) == []
    assert suspects(both, particles(0.0), WEIGHTS, effective=200.0) == [small]
    assert is_lost(np.log(0.06), 0.0, 0.0, 20.0)[0] is False
    assert is_lost(np.log(0.06), 0.0, 0.0, 200.0)[0] is True


def test_a_large_mode_is_missed_by_however_few_particles() -> None:
    """A fifth of the mass: that there are too few particles to be surprised does not make it right."""
    found = modes()
    assert suspects(found, particles(0.0), WEIGHTS, effective=20.0) == [found[1]]
    assert is_lost(np.log(0.2), 0.0, 0.0, 20.0)[0] is True
    assert is_lost(np.log(0.2), 0.2, 0.0, 20.0)[0] is False


def test_a_high_peak_without_mass_is_none() -> None:
    """A thousandth as wide in each of three directions: e^13 times as high at a two-thousandth of the mass."""
    spike = Mode(CENTRES[1], modes()[0].log_density + 13.0, 1e-3 * FACTOR, True)
    assert suspects([spike, modes()[0]], particles(0.0), WEIGHTS, effective=500.0) == []


def test_mass_is_that_of_the_neighbourhood() -> None:
    """Nine tenths of the Gaussian's, to the error of 4000 draws from a Student-t: weights vary by less than a factor of
    two, so four standard errors are below 0.07."""
    log_mass = mass_around(modes()[1], log_target, np.random.default_rng(1), 4000)
    assert log_mass == pytest.approx(LOG_EVIDENCE + np.log(WITHIN * SHARE), abs=0.07)


def test_weight_is_that_of_the_neighbourhood() -> None:
    error = np.sqrt(WITHIN * (1 - WITHIN) / COUNT)
    assert weight_around(modes()[0], particles(0.0), WEIGHTS) == pytest.approx(WITHIN, abs=4 * error)
    assert weight_around(modes()[1], particles(0.0), WEIGHTS) == 0.0


def test_the_share_counts_what_the_run_has_missed() -> None:
    """The run's evidence is that of the first mode alone."""
    own = LOG_EVIDENCE + np.log(1 - SHARE)
    lost, share = is_lost(LOG_EVIDENCE + np.log(SHARE), 0.0, own, 500.0)
    assert lost and share == pytest.approx(SHARE)
    assert not is_lost(LOG_EVIDENCE + np.log(SHARE), 0.15, own, 500.0)[0]
    assert not is_lost(own - 6.0, 0.0, own, 500.0)[0]  # 0.25 %
    lost, share = is_lost(own + 160.0, 0.0, own, 500.0)  # particles that are lost themselves
    assert lost and share == pytest.approx(1.0)


def check(**modes_of: object) -> SamplingCheck:
    return SamplingCheck(100, {"b": 1.0}, {"b": 80.0}, 0.1, 0.1, modes=ModeCheck(**modes_of))


MODE = MAPEstimate({"a": 1.0, "b": -1.5}, 314.4, 302.7)


def test_a_lost_mode_is_in_the_verdict_with_its_place() -> None:
    found = check(found=(MODE,), lost=(LostMode(MODE, 0.5, 0.0),), starts=6)
    assert not found.trusted and found.status == "not trusted"
    assert found.reasons == ("no particle reaches a mode with 50 % of the mass, at a = 1, b = -1.5",)


def test_what_was_not_searched_is_said() -> None:
    found = check(skipped="there is no cheap likelihood")
    assert found.trusted
    assert "modes were not searched: there is no cheap likelihood" in found.verdict
    assert "searches from 6 starts (1 came to no end) found no mode" in check(starts=6, unfinished=1).verdict


def test_as_plain_data_and_back() -> None:
    found = check(found=(MODE,), lost=(LostMode(MODE, 0.5, 0.0),), starts=6)
    assert SamplingCheck.from_record(found.to_record()) == found
    assert replace(found, modes=None) != found
