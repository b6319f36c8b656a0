"""posteriordb's Lotka-Volterra posterior, with a quarter of the particles that the study takes.

The full study is `python -m validation lotka-volterra`.
"""

import numpy as np
import pytest

import probsysid as ps
from validation import lotka_volterra as lv


@pytest.mark.long
def test_reference_draws_and_evidence() -> None:
    reference = lv.Reference.read()
    if reference is None:
        pytest.skip("the reference draws are not beside the folder that PROBSYSID_DATA names")
    found = reference.compare(lv.identify(reference, ps.Sampler(particles=1024)))
    # 10000 reference draws, and ours, of which common ancestors leave about half their effective number
    error = np.sqrt(1 / 10_000 + 2 / found["ess"])
    for name in lv.NAMES:
        assert abs(found["mean"][name]) < 4 * error
        assert abs(found["sd"][name] - 1) < 4 * error / np.sqrt(2)
    # an error from 8 parts has 7 degrees of freedom: 3.5 of it is the 1 % quantile; the reference is known to 0.004
    error = np.hypot(found["log evidence error"], 0.004)
    assert error < 0.06
    assert abs(found["log evidence"] - lv.LOG_EVIDENCE) < 3.5 * error
