"""Bad input gets one sentence with the name and the value, before anything compiles."""

from contextlib import nullcontext

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import probsysid as ps
from probsysid import dist
from tests import duffing

RECORD = ps.Record(inputs={"force": np.zeros(20)}, outputs={"position": np.zeros(20)}, dt=0.1)


def priors(**changes: object) -> dict:
    return {**duffing.PRIORS, **changes}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"priors": {k: v for k, v in duffing.PRIORS.items() if k != "k3"}},
            "priors has no entry for the parameter 'k3'",
        ),
        (
            {"priors": priors(k4=dist.Normal(0, 1))},
            "'k4', which the Duffing oscillator does not use.*Did you mean 'k'",
        ),
        ({"priors": priors(m="heavy")}, "the prior of 'm' is 'heavy'"),
        ({"priors": priors(m=np.nan)}, "the prior of 'm' is nan"),
        ({"priors": priors(m=dist.Poisson(3.0))}, "the prior of 'm' is discrete"),
        ({"priors": priors(m=dist.Normal(np.zeros(2), 1))}, r"the prior of 'm' has shape \(2,\)"),
        ({"noise": {"positoin": 0.1}}, "noise names 'positoin'.*Did you mean 'position'"),
        ({"noise": {"position": 0.0}}, "noise of 'position' is 0.0"),
        ({"noise": {"position": -1}}, "noise of 'position' is -1"),
        ({"noise": {"position": dist.Normal(0, 1)}}, "noise.position allows negative values"),
        ({"initial": {"x": 0.0}}, "initial has no entry for 'dx'"),
        ({"initial": {"x": 0.0, "dx": 0.0, "v": 1.0}}, "initial names 'v'"),
        ({"initial": {"x": 0.0, "dx": "rest"}}, "initial value of 'dx' is 'rest'"),
        ({"process_noise": {"y": 1.0}}, "process_noise names 'y'"),
        ({"seed": 1.5}, "seed is 1.5"),
        ({"solver": ps.Solver(smoothness=1)}, "smoothness of 'x' is 1"),
        ({"solver": ps.Solver(smoothness={"y": 3})}, "smoothness names 'y'"),
    ],
)
def test_identify(changes: dict, message: str) -> None:
    with pytest.raises(ps.InputError, match=message):
        ps.identify(duffing.model, RECORD, **duffing.options(**changes))


def test_records() -> None:
    with pytest.raises(ps.InputError, match="there is no record"):
        ps.identify(duffing.model, [], **duffing.options())
    with pytest.raises(ps.InputError, match="record 0 is a dict"):
        ps.identify(duffing.model, [{}], **duffing.options())
    other = ps.Record(inputs={"force": np.zeros(20)}, outputs={"pos": np.zeros(20)}, dt=0.1)
    with pytest.raises(ps.InputError, match=r"none of the model's outputs \(position\); it has: pos"):
        ps.identify(duffing.model, other, **duffing.options())
    with pytest.raises(ps.InputError, match=r"the model uses the input 'force'.*Did you mean 'Force'"):
        ps.identify(
            duffing.model, ps.Record({"Force": np.zeros(3)}, {"position": np.zeros(3)}, dt=1.0), **duffing.options()
        )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"particles": 1}, "particles is 1"),
        ({"particles": 10, "islands": 4}, "10 particles do not divide into 4 islands; take 8"),
        ({"ess": 0.0}, "ess is 0.0"),
        ({"move": "gausian"}, "move is 'gausian'.*Did you mean 'gaussian'"),
        ({"resampling": "sistematic"}, "Did you mean 'systematic'"),
        ({"path": "date"}, "path is 'date'.*Did you mean 'data'"),
    ],
)
def test_sampler(settings: dict, message: str) -> None:
    with pytest.raises(ps.InputError, match=message):
        ps.Sampler(**settings)


def test_all_particles_lost_is_said_with_the_sample_and_the_state_is_kept(tmp_path) -> None:
    model = ps.Model({"x": 1}, lambda s, u, p: {"x": p.a * s.x**3})
    record = ps.Record(outputs={"x": np.ones(20)}, dt=1.0)
    with pytest.raises(ps.SamplingError, match=r"lost at sample \d+ \(t = ") as caught:
        ps.identify(
            model,
            record,
            {"a": dist.Uniform(20, 30)},
            {"x": 0.1},
            {"x": 1.0},
            solver=ps.Solver(smoothness=2, substeps=1),
            sampler=ps.Sampler(particles=64),
            checkpoint=tmp_path / "run.npz",
        )
    assert caught.value.sample >= 1
    assert (tmp_path / "run.npz").exists()


def test_some_particles_lost_are_counted_and_the_run_goes_on() -> None:
    """Half of the prior is where the model is not defined."""
    model = ps.Model({"x": 1}, lambda s, u, p: {"x": -jnp.sqrt(1 - p.a) * s.x})
    random = np.random.default_rng(0)
    time = 0.2 * np.arange(30)
    record = ps.Record(outputs={"x": np.exp(-np.sqrt(0.5) * time) + 0.01 * random.standard_normal(30)}, dt=0.2)
    posterior = ps.identify(
        model, record, {"a": dist.Uniform(0, 2)}, {"x": 0.01}, {"x": 1.0}, sampler=ps.Sampler(particles=256)
    )
    # 128 expected, standard deviation 8
    assert abs(posterior.settings.lost - 128) < 4 * 8
    assert abs(posterior.mean("a") - 0.5) < 4 * posterior.sd("a")


@pytest.mark.parametrize("how", ["config", "context"])
def test_single_precision_is_noticed(how: str) -> None:
    """However double precision was switched off, and wherever it would have been needed."""
    calls = {
        "Model": lambda: ps.Model({"x": 1}, lambda s, u, p: {"x": -s.x}),
        "identify": lambda: ps.identify(duffing.model, RECORD, **duffing.options()),
        "Identifier": lambda: ps.Identifier(duffing.model, dt=0.1, **duffing.options()),
        "solve": lambda: ps.solve(duffing.model, duffing.TRUTH, RECORD),
        "simulate": lambda: duffing.measure(10),
    }
    for name, attempt in calls.items():
        with jax.enable_x64(False) if how == "context" else nullcontext():
            jax.config.update("jax_enable_x64", how == "context")
            try:
                with pytest.raises(ps.InputError, match="jax_enable_x64") as caught:
                    attempt()
            finally:
                jax.config.update("jax_enable_x64", True)
        assert "leave it on" in str(caught.value), name


def test_what_does_not_fit_into_memory_is_refused_before_it_is_allocated(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ps.InputError, match=r"1000000000000 particles would take about 1e\+07 GB of memory"):
        ps.identify(duffing.model, RECORD, **duffing.options(sampler=ps.Sampler(particles=10**12)))
    monkeypatch.setattr("probsysid._internal.memory.available_memory", lambda: 1_000_000)
    with pytest.raises(ps.InputError, match="20 samples with 10000 steps each would take about"):
        ps.solve(duffing.model, duffing.TRUTH, RECORD, solver=ps.Solver(substeps=10_000))


@pytest.mark.parametrize("channel", ["force", "position"])
def test_numbers_whose_powers_overflow_are_refused(channel: str) -> None:
    with pytest.raises(ps.InputError, match=f"{channel!r} is 1e\\+308 at sample 7; beyond 1e\\+100 powers overflow"):
        changed = {"force": np.zeros(20), "position": np.zeros(20), channel: np.eye(20)[7] * 1e308}
        ps.Record({"force": changed["force"]}, {"position": changed["position"]}, dt=0.1)
