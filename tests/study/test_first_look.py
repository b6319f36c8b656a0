"""What is seen in data before any model: oscillation, time constants, cause and effect, held signals."""

import numpy as np
import pytest
from scipy.signal import lfilter

from probsysid.study.first_look import follows, is_held, look

STEP, COUNT = 0.05, 800
TIME = STEP * np.arange(COUNT)
DRIVE = np.repeat(np.random.default_rng(0).normal(size=COUNT // 20), 20)
NOISE = 0.05 * np.random.default_rng(1).standard_normal(COUNT)


def lag(constant: float, gain: float = 2.0) -> np.ndarray:
    """Response of a first-order lag to the held drive, exact."""
    pole = np.exp(-STEP / constant)
    return lfilter([0.0, gain * (1 - pole)], [1.0, -pole], DRIVE)


def resonance(omega: float, damping: float) -> np.ndarray:
    pole = np.exp((-damping + 1j * np.sqrt(1 - damping**2)) * omega * STEP)
    return lfilter([0.0, STEP**2], [1.0, -2 * pole.real, abs(pole) ** 2], DRIVE)


@pytest.mark.parametrize("constant", [0.5, 3.0])
def test_a_lag_is_no_oscillator_and_has_its_constants(constant: float) -> None:
    found = look(TIME, DRIVE, lag(constant) + NOISE)
    assert found is not None and not found.oscillates
    # the grid's steps are a factor of (3 * 40 / 0.1)^(1/59) = 1.13; half of one, and 1 % for the noise
    assert found.time == pytest.approx(constant, rel=0.07)
    assert found.gain == pytest.approx(2.0, rel=0.07)


@pytest.mark.parametrize(("omega", "damping"), [(3.0, 0.02), (8.0, 0.1)])
def test_a_resonance_is_seen(omega: float, damping: float) -> None:
    clean = resonance(omega, damping)
    found = look(TIME, DRIVE, clean + np.std(clean) * NOISE)
    assert found is not None and found.oscillates
    # the grid's steps are a factor of 1.07
    assert 1 / found.time == pytest.approx(omega, rel=0.08)


def test_free_responses() -> None:
    swing = look(TIME, None, np.exp(-0.1 * TIME) * np.cos(4 * TIME) + NOISE)
    decay = look(TIME, None, 3 + np.exp(-0.3 * TIME) + NOISE)
    assert swing is not None and swing.oscillates and 1 / swing.time == pytest.approx(4, rel=0.08)
    assert decay is not None and not decay.oscillates and decay.time == pytest.approx(1 / 0.3, rel=0.15)


def test_few_samples_at_uneven_times() -> None:
    """A drug's concentration after an infusion does not oscillate."""
    time = np.array([0, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 6, 8, 10, 12, 16, 24.0])
    during, after = 1 - np.exp(-0.15 * np.minimum(time, 1)), np.exp(-0.15 * np.maximum(time - 1, 0))
    found = look(time, np.where(time < 1, 200.0, 0.0), during * after)
    assert found is not None and not found.oscillates
    assert look(time[:5], None, time[:5]) is None
    assert look(time, None, np.ones(15)) is None


def test_cause_and_effect() -> None:
    smooth = lfilter([0.05], [1, -0.95], np.random.default_rng(2).normal(size=COUNT))
    pole = np.exp(-STEP / 1.0)
    response = lfilter([0.0, 1 - pole], [1, -pole], smooth) + 0.01 * np.std(smooth) * NOISE / 0.05
    assert follows(response, smooth)
    assert not follows(smooth, response)
    assert not follows(NOISE, smooth) and not follows(smooth, NOISE)


def test_held_signals() -> None:
    assert is_held(DRIVE) and not is_held(NOISE)
    assert not is_held(np.ones(100)) and not is_held(np.array([1.0, 1, 0]))
