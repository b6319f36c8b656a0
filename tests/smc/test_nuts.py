"""Against the no-U-turn sampler with a finely stepped Runge-Kutta likelihood, on a Duffing record.

The full study, with enough draws for 0.1 sd, is `python -m validation nuts`.
"""

import numpy as np
import pytest

from validation import nuts


@pytest.mark.long
def test_means_and_spreads_are_those_of_nuts() -> None:
    record = nuts.data(60)
    draws = nuts.exact_draws(record, warmup=400, draws=1200, chains=1, steps=3)  # error of 5e-4 of the noise
    found = nuts.compare(nuts.identify(record, particles=1024), draws)
    assert set(found["mean"]) == {"m", "c", "k", "k3", "noise.position", "initial.x", "initial.dx"}
    # draws of both are worth fewer: those of NUTS by their autocorrelation, ours by weights and common ancestors
    ours = 0.5 * found["ess"]
    for name, theirs in found["effective draws"].items():
        assert theirs > 300
        assert abs(found["mean"][name]) < 4 * np.sqrt(1 / theirs + 1 / ours)
        assert abs(found["sd"][name] - 1) < 4 * np.sqrt(0.5 / theirs + 0.5 / ours)
