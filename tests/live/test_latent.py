"""A stream whose model has an input that nobody measures, and a parameter that drifts."""

from pathlib import Path

import numpy as np
import pytest

import probsysid as ps
from probsysid import dist
from probsysid.live.shown import sample_columns
from probsysid.live.study_setup import live_study
from probsysid.live.track import CODEC
from tests.live import lag

SAMPLES = 40
OPTIONS = {
    "priors": {"a": dist.LogNormal(0, 1), "b": 2.0},
    "noise": {"level": 0.02},
    "initial": {"h": 0.0},
    "dt": lag.DT,
    "intersample": "zoh",
    "solver": ps.Solver(smoothness=2, substeps=1),
    "sampler": ps.Sampler(particles=128),
    "unknown": {"u": ps.Matern(0.5, scale=1.0, length=1.0)},
    "drifts": {"a": ps.RandomWalk(rate=0.1)},
}


def test_unknown_inputs_are_states_of_the_stream() -> None:
    """The posterior is that of an identifier with all samples, and a new start begins where the walk has come to."""
    rows = lag.measure(SAMPLES)
    with ps.Live(lag.model, **OPTIONS) as live:
        live.push({"level": rows[:, 2]}, rows[:, 0])
        assert live.wait(120)
        track = live._session.engine.tracks[0]
        shown = sample_columns(track)
        following = {key: CODEC.decode(value) for key, value in track.next_arguments(1.0).items() if value is not None}
        walk = track.last_state["a_drift"][0]
    assert {"state:h", "state:u", "state:a_drift"} <= set(shown) and "measured:level" in shown
    assert set(following["initial"]) == {"h"} and set(following["priors"]) == {"a", "b"}
    online = ps.Identifier(lag.model, **OPTIONS)
    online.update({}, {"level": rows[:, 2]})
    lag.assert_identical(live.posterior, online.posterior)
    # the mean of log a moves by that of the walk; 128 draws of it have a mean to 4 sd / sqrt(128)
    column = np.log(online.posterior.columns["a"])
    expected = float(online.posterior.weights @ column) + walk
    spread = 0.1 * np.sqrt(SAMPLES * lag.DT)
    assert float(following["priors"]["a"].loc) == pytest.approx(expected, abs=4 * spread / np.sqrt(128))


def test_a_study_gives_its_kernels_to_the_stream(tmp_path: Path) -> None:
    kernel = '\n[unknown.u]\nkernel = "matern"\nnu = 0.5\nscale = 1\nlength = 1\n'
    for noise, inputs, outputs in (("", (), ("level",)), (", u = 0.1", (), ("level", "u"))):
        (tmp_path / "rig.toml").write_text(lag.STUDY.replace("level = 0.02", f"level = 0.02{noise}") + kernel)
        found = live_study(tmp_path / "rig.toml", lag.DT)
        assert (tuple(found.channels.inputs), tuple(found.channels.outputs)) == (inputs, outputs)
        (arguments,) = found.candidates.values()
        assert set(arguments["unknown"]) == {"u"} and set(arguments["priors"]) == {"a", "b"}
        assert ps.Identifier(**arguments).problem.model.output_names == outputs
