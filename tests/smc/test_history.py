"""What a run went through, and the error of its evidence."""

import numpy as np
import pytest
from scipy.special import logsumexp

from probsysid._internal.statistics import log_mean_exp
from probsysid.smc.evidence import evidence_error
from probsysid.smc.history import History
from probsysid.smc.ibis import StepInfo
from probsysid.smc.rejuvenate import Rejuvenation

EVENT = Rejuvenation(1, 0.5, 12.0, 2, 0.4, 0.9, 30, 640.0, "random walk")


def history() -> History:
    log = History(islands=2)
    log.add(StepInfo(np.array([[10.0, 9.0]]), np.array([[-1.0, -1.5]])))
    log.add(StepInfo(np.array([[8.0, 7.0], [6.0, 5.0]]), np.array([[-3.0, -2.0], [-4.0, -5.0]]), (EVENT,)))
    return log


def test_pieces_are_joined() -> None:
    log = history()
    np.testing.assert_array_equal(log.ess, [[10, 9], [8, 7], [6, 5]])
    log.add(StepInfo(np.array([[4.0, 3.0]]), np.array([[-6.0, -6.0]])))  # after somebody looked
    assert log.ess.shape == log.evidence.shape == (4, 2)
    assert list(log.table()["kind"]) == ["random walk"]
    assert list(log.table().columns) == list(Rejuvenation._fields)


def test_log_predictive_is_the_gain_in_evidence() -> None:
    log = history()
    total = logsumexp(log.evidence, axis=1) - np.log(2)
    np.testing.assert_allclose(log.log_predictive, np.diff(total, prepend=0), rtol=1e-14)


def test_corrections_are_shared_by_the_samples_since_the_rejuvenation_before() -> None:
    log = history()
    log.rejuvenations = [EVENT._replace(sample=1, correction=0.2), EVENT._replace(sample=2, correction=-0.3)]
    log.rejuvenations += [EVENT._replace(sample=2, correction=0.1)]  # bridged: the same sample again
    plain = np.diff(logsumexp(log.evidence, axis=1) - np.log(2), prepend=0)
    np.testing.assert_allclose(log.log_predictive - plain, [0.1, 0.1, -0.2], atol=1e-14)


def test_an_empty_history() -> None:
    log = History(islands=3)
    assert log.ess.shape == (0, 3)
    assert log.log_predictive.shape == (0,)
    assert len(log.table()) == 0


def test_mean_over_islands() -> None:
    assert log_mean_exp(np.log([[1.0, 3.0]])) == pytest.approx(np.log(2))


def test_evidence_error_is_the_standard_error_of_the_mean() -> None:
    by_island = np.log([1.0, 1.1, 0.9, 1.2]) - 700.0
    values = np.array([1.0, 1.1, 0.9, 1.2])
    expected = values.std(ddof=1) / np.sqrt(4) / values.mean()
    assert evidence_error(by_island) == pytest.approx(expected, rel=1e-12)
    assert np.isnan(evidence_error(np.array([-3.0])))
    assert evidence_error(np.full(4, -3.0)) == 0
