"""What a new start begins with."""

import numpy as np

import probsysid as ps
from probsysid import dist
from probsysid.live.restart import widened
from tests.live import lag


def test_what_is_forgotten_is_forgotten_to_the_first_priors() -> None:
    """Also where the posterior's own priors come from a new start after a gap."""
    rows = lag.measure(60)
    record = ps.Record({"u": rows[:, 1]}, {"level": rows[:, 2]}, dt=lag.DT, intersample="zoh")
    options = {key: value for key, value in lag.OPTIONS.items() if key not in ("dt", "intersample")}
    first = ps.identify(lag.model, record, **options)
    truth = {"a": lag.RATE, "b": lag.GAIN}
    narrow = {"priors": {name: dist.LogNormal(np.log(value), 1e-3) for name, value in truth.items()}}
    later = ps.identify(lag.model, record, **{**options, **narrow})
    given = first.setup.problem
    assert widened(later, given, 0.0, {})["priors"] == given.given_priors
    kept = widened(first, given, 1.0, {})["priors"]["a"]
    assert np.isclose(float(kept.loc), first.weights @ np.log(first.columns["a"]))
