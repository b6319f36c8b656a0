"""One-step prediction errors: the verdict on them and their figures."""

import numpy as np
import pytest

import probsysid as ps
from probsysid.posterior.diagnostics.residuals import analyse, verdict
from probsysid.report.html.residuals import MOST_POINTS, residual_figures


def test_white_and_coloured_errors_are_told_apart() -> None:
    random = np.random.default_rng(0)
    white = analyse(random.standard_normal(2000))
    assert white is not None and white.white
    # The sample standard deviation of n standard normals has standard error 1 / sqrt(2 n) = 0.016.
    assert abs(white.spread - 1) < 4 * 0.016
    coloured = analyse(np.convolve(random.standard_normal(2000), [1, 0.5], "same"))
    assert coloured is not None and not coloured.white
    assert "not white" in verdict("y", coloured)
    assert analyse(np.zeros(100)) is None
    gaps = random.standard_normal(300)
    gaps[[10, 20]] = np.nan
    found = analyse(gaps)
    assert found is not None and set(range(300)) - set(found.samples.tolist()) == {10, 20}


def test_the_figures_show_correlation_spectrum_and_inputs() -> None:
    random, samples = np.random.default_rng(0), 3 * MOST_POINTS
    found = analyse(random.standard_normal(samples))
    assert found is not None
    record = ps.Record({"u": np.arange(samples) / samples}, {"y": np.zeros(samples)}, dt=0.01)
    correlation, spectrum, against = (plot.renderers[0].data_source.data for plot in residual_figures(found, record))
    np.testing.assert_array_equal(correlation["y1"], found.correlation)
    # By Parseval the average is the ratio of two estimates of the variance from the same samples: its standard error is
    # less than that of one of them, sqrt(2 / samples).
    assert np.mean(spectrum["y"]) == pytest.approx(1.0, abs=4 * np.sqrt(2 / samples))
    assert spectrum["x"][-1] == 50.0  # half the sampling rate
    assert len(against["x"]) == MOST_POINTS
    assert against["x"][[0, -1]].tolist() == [0.0, (samples - 1) / samples]
