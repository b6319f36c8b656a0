"""Weights: their effective number, their mean, tempering, and sums that do not depend on how samples are grouped."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.special import logsumexp

from probsysid._internal.statistics import effective_sample_size, log_mean_exp, log_sum_exp
from probsysid.smc import weights as w

SHAPE = (2, 6)
log_weights = hnp.arrays(float, SHAPE, elements=st.floats(-50, 50))
energies = hnp.arrays(float, (7, 12), elements=st.one_of(st.floats(-1e3, 1e3), st.just(np.nan), st.just(np.inf)))


def test_effective_size_of_known_weights() -> None:
    """1 / sum of squares of normalised weights (paper, eq. ESS)."""
    logs = np.log([[0.25, 0.25, 0.25, 0.25], [0.5, 0.5, 1e-300, 1e-300], [0.7, 0.1, 0.1, 0.1]])
    np.testing.assert_allclose(effective_sample_size(logs), [4, 2, 1 / (0.49 + 0.03)], rtol=1e-14)
    assert effective_sample_size(np.full((1, 4), -np.inf)) == 0
    assert effective_sample_size(np.array([[-np.inf, 3.0, -np.inf]])) == 1


@given(log_weights, st.floats(-500, 500))
def test_effective_size_does_not_depend_on_a_factor(logs: np.ndarray, shift: float) -> None:
    size = effective_sample_size(logs)
    assert np.all((size >= 1 - 1e-12) & (size <= SHAPE[1] + 1e-12))
    # the shift rounds the logs at 1e-13
    np.testing.assert_allclose(effective_sample_size(logs + shift), size, rtol=1e-11)


@given(hnp.arrays(float, (3, 5), elements=st.one_of(st.floats(-700, 700), st.just(-np.inf))))
def test_sums_of_exponentials_are_scipys(values: np.ndarray) -> None:
    with np.errstate(divide="ignore"):
        expected = logsumexp(values, axis=-1)
    np.testing.assert_allclose(log_sum_exp(values), expected, rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(log_mean_exp(values), expected - np.log(5), rtol=1e-14, atol=1e-14)


@given(log_weights)
def test_normalised_weights_sum_to_one(logs: np.ndarray) -> None:
    np.testing.assert_allclose(w.normalise(logs).sum(axis=-1), 1, rtol=1e-13)
    np.testing.assert_allclose(w.normalise(logs.ravel()).sum(), 1, rtol=1e-13)


def test_weights_are_normalised_however_large_their_logarithms() -> None:
    np.testing.assert_allclose(w.normalise(np.array([-1e13, -1e13 + 1])), [1 / (1 + np.e), np.e / (1 + np.e)])
    assert np.isnan(w.normalise(np.full(2, -np.inf))).all()


@given(log_weights, energies, st.lists(st.integers(1, 6), max_size=3))
def test_samples_in_any_portions_give_the_same_bits(logs: np.ndarray, rows: np.ndarray, cuts: list[int]) -> None:
    with np.errstate(invalid="ignore"):
        whole = w.weigh(logs, rows)
        populations, current = [], logs
        for part in np.split(rows, sorted(set(cuts))):
            populations.append(w.weigh(current, part))
            current = populations[-1].log_weights[-1]
    for name in w.ReweightedBlock._fields:
        joined = np.concatenate([getattr(part, name) for part in populations])
        np.testing.assert_array_equal(joined, getattr(whole, name))


def test_a_lost_particle_stays_lost_and_is_counted_once() -> None:
    rows = np.array([[1.0, 2.0, 3.0, 4.0], [np.nan, 1.0, np.inf, 1.0], [5.0, 1.0, -np.inf, 1.0]])
    weighted = w.weigh(np.zeros((2, 2)), rows)
    np.testing.assert_array_equal(weighted.lost, [0, 2, 0])
    np.testing.assert_array_equal(weighted.log_weights[-1], [[-np.inf, -4], [-np.inf, -6]])
    np.testing.assert_array_equal(weighted.ess[-1], [1, 1])
    np.testing.assert_allclose(weighted.log_mean[-1], np.array([-4, -6]) - np.log(2))


@settings(max_examples=30)
@given(log_weights, hnp.arrays(float, SHAPE, elements=st.floats(-200, 200)), st.floats(0.05, 0.9))
def test_tempering_takes_as_much_as_it_may(logs: np.ndarray, energy: np.ndarray, share: float) -> None:
    """The weights stay as even as wanted, and would not with a little more."""
    logs = 0.001 * logs  # nearly even, as after a rejuvenation
    part = w.temper(logs, energy, share)
    assert 0 <= part <= 1
    assert w.ess_fraction(effective_sample_size(logs - part * energy), SHAPE[1]) >= share
    if part < 1:
        more = (1 + w.PRECISE) * part + 1e-9
        assert w.ess_fraction(effective_sample_size(logs - more * energy), SHAPE[1]) < share


def test_evenness_is_the_mean_but_no_island_may_die_out() -> None:
    sizes = np.array([[8.0, 4.0], [8.0, 2.0], [8.0, 0.0]])
    np.testing.assert_allclose(w.ess_fraction(sizes, 8), [0.75, 0.5, 0.0])


def test_tempering_with_lost_particles() -> None:
    """They are lost at any share: what remains is held to the same share of itself."""
    energy = np.array([[np.inf, np.inf, np.inf, 0.0, 0.0, 0.0, 0.0, 100.0]])
    part = w.temper(np.zeros((1, 8)), energy, 0.9)
    assert 0 < part < 1
    assert effective_sample_size(-part * energy) >= 0.9 * 5
    assert effective_sample_size(-(1 + w.PRECISE) * part * energy) < 0.9 * 5
    assert w.temper(np.zeros((1, 8)), np.full((1, 8), np.inf), 0.5) == 1.0


def test_no_share_of_an_infinite_energy_is_nothing() -> None:
    np.testing.assert_array_equal(w.tempered(np.array([np.inf, 1.0]), 0.0), [0, 0])
    np.testing.assert_array_equal(w.tempered(np.array([np.inf, 1.0]), 0.5), [np.inf, 0.5])


@pytest.mark.parametrize("scale", [1e3, 1e15, 1e25, 1e200])
def test_energies_of_any_size_are_tempered(scale: float) -> None:
    """An outlier at a noise level fixed far below it: the exponent is tiny, and never zero."""
    random = np.random.default_rng(0)
    energy = scale * random.random((4, 64))
    share = w.temper(np.zeros((4, 64)), energy, 0.5)
    assert 0 < share < 1
    sizes = effective_sample_size(-share * energy)
    assert w.ess_fraction(sizes, 64) == pytest.approx(0.5, abs=0.01)


def test_dead_populations_do_not_count_when_tempering() -> None:
    """The exponent is that of the populations that are left."""
    random = np.random.default_rng(1)
    energy = 100 * random.random((4, 64))
    dead = np.concatenate([energy, np.full((1, 64), np.inf)])
    assert w.temper(np.zeros((5, 64)), dead, 0.5) == w.temper(np.zeros((4, 64)), energy, 0.5)
