"""Arguments of the wrong kind, everywhere: one sentence that names the argument and what was given."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import probsysid as ps
from probsysid import dist
from tests.posterior.tiny import MODEL, PRIORS, RECORD, tiny_with_model

POSTERIOR = tiny_with_model()
GIVEN: dict[str, Any] = {
    "model": MODEL,
    "record": RECORD,
    "priors": PRIORS,
    "noise": {"level": 0.1},
    "initial": {"h": 0.0},
    "sampler": ps.Sampler(particles=16),
}

WRONG: dict[str, list[Any]] = {
    "model": [None, "duffing", dict, MODEL.dynamics, 3],
    "record": [None, 3, "data.csv", RECORD.inputs, np.zeros(5), [], [None], [[RECORD]]],
    "priors": [None, [], 3, "priors", [("a", 1.0)], dist.Normal(0, 1)],
    "noise": [0.1, [0.1], "small", dist.LogNormal(0, 1), {"level": None}, {"level": [0.1, 0.2]}, {0: 1.0}],
    "initial": [0.0, "rest", [0.0], [None], {"h": None}, {"h": [0.0]}, {"h": np.nan}, [{}, {}], dist.Normal(0, 1)],
    "solver": ["ekf1", None, {}, ps.Solver, 3],
    "sampler": [{}, None, 128, "default", ps.Sampler],
    "process_noise": [0.1, [0.1], "small", {"h": None}, {"h": -1.0}],
    "seed": [None, "0", 0.0, -1, 2**63, 2**64, True, [0], np.float64(1)],
    "executor": [2, "threads", ps.Threads],
    "checkpoint": [3, b"run.npz", ".", ["run.npz"]],
    "checkpoint_seconds": [-1, "1", None, float("nan")],
}


def refusal(attempt: Callable[[], Any]) -> str:
    with pytest.raises(ps.InputError) as caught:
        attempt()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def named(value: Any) -> str:
    """What a test calls a value: the same in every process, so no addresses."""
    text = str(value)
    return type(value).__name__ if " at 0x" in text else text


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, values in WRONG.items() for v in values], ids=named)
def test_identify(name: str, value: Any) -> None:
    said = refusal(lambda: ps.identify(**{**GIVEN, name: value}))
    assert name.removesuffix("s") in said or (name == "noise" and "level" in said), said


ONLINE = {**{k: v for k, v in GIVEN.items() if k != "record"}, "dt": 0.1}
WRONG_ONLINE = {**{k: v for k, v in WRONG.items() if k in ("model", "priors", "solver", "sampler", "seed", "executor")}}
WRONG_ONLINE |= {"dt": [None, 0, -1, "0.1", np.inf, [0.1]], "noise": [None, 0.1, {}], "initial": [None, 0.0, [{}]]}
WRONG_ONLINE |= {"intersample": ["bandlimited", None, 3]}


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, values in WRONG_ONLINE.items() for v in values], ids=named)
def test_identifier(name: str, value: Any) -> None:
    assert name.removesuffix("s") in refusal(lambda: ps.Identifier(**{**ONLINE, name: value}))


@pytest.mark.parametrize(
    "attempt",
    [
        lambda o: o.update(None, {"level": 0.0}),
        lambda o: o.update({"u": 1.0}, 0.0),
        lambda o: o.update({"u": "1 V"}, {"level": 0.0}),
        lambda o: o.update({"u": [1.0, 2.0]}, {"level": [0.0]}),
        lambda o: o.update({"u": np.nan}, {"level": 0.0}),
        lambda o: o.save(Path("nowhere") / "run.npz"),
        lambda o: o.save(None),
    ],
)
def test_samples_of_a_stream(attempt: Callable[[ps.Identifier], Any]) -> None:
    refusal(lambda: attempt(ps.Identifier(**ONLINE)))


TRUTH = {"a": 1.0, "b": 2.0}


@pytest.mark.parametrize(
    ("attempt", "named"),
    [
        (lambda: ps.solve(None, TRUTH, RECORD), "model"),
        (lambda: ps.solve(MODEL, None, RECORD), "parameters"),
        (lambda: ps.solve(MODEL, [1.0, 2.0], RECORD), "parameters"),
        (lambda: ps.solve(MODEL, {**TRUTH, "a": np.nan}, RECORD), "'a' is nan"),
        (lambda: ps.solve(MODEL, {**TRUTH, "a": np.inf}, RECORD), "'a' is inf"),
        (lambda: ps.solve(MODEL, {**TRUTH, "a": "1"}, RECORD), "'a'"),
        (lambda: ps.solve(MODEL, {**TRUTH, "a": None}, RECORD), "'a'"),
        (lambda: ps.solve(MODEL, TRUTH, None), "time"),
        (lambda: ps.solve(MODEL, TRUTH, "data.csv"), "time"),
        (lambda: ps.solve(MODEL, TRUTH, [[0, 1], [2]]), "time"),
        (lambda: ps.solve(MODEL, TRUTH, RECORD, initial=0.0), "initial"),
        (lambda: ps.solve(MODEL, TRUTH, RECORD, initial={"h": np.nan}), "'h'"),
        (lambda: ps.solve(MODEL, TRUTH, RECORD, solver="ekf1"), "solver"),
        (lambda: ps.Model(["x"], lambda s, u, p: {"x": 1.0}), "coordinates"),
        (lambda: ps.Model(None, lambda s, u, p: {"x": 1.0}), "coordinates"),
        (lambda: ps.Model("x", lambda s, u, p: {"x": 1.0}), "coordinates"),
        (lambda: ps.Model({"x": 1}, lambda s, u, p: {"x": 1.0}, units=["m"]), "units"),
        (lambda: ps.Model({"x": 1}, lambda s, u, p: {"x": 1.0}, shapes=3), "shapes"),
        (lambda: ps.Record({"u": [[1, 2], [3]]}, {"y": [0, 0]}, dt=0.1), "'u'"),
        (lambda: jax.jit(lambda x: ps.Record({"u": x}, {"y": np.zeros(2)}, dt=0.1))(np.zeros(2)), "'u'"),
        (lambda: ps.Sampler(particles=0), "particles is 0"),
        (lambda: ps.Sampler(particles="many"), "particles"),
        (lambda: ps.Sampler(move=3), "move"),
        (lambda: ps.Sampler(resampling=None), "resampling"),
        (lambda: ps.Sampler(cross_fit="yes"), "cross_fit"),
        (lambda: ps.Solver(linearisation=1), "linearisation"),
        (lambda: ps.Solver(linearisation=ps.EKF1), "linearisation"),
        (lambda: ps.Solver(diffusion=ps.Dynamic), "diffusion"),
        (lambda: ps.Solver(diffusion=[1.0]), "diffusion"),
        (lambda: ps.Solver(diffusion=-1.0), "diffusion"),
        (lambda: ps.Solver(smoothness=[3]), "smoothness"),
        (lambda: ps.Threads(cores=0), "cores"),
        (lambda: ps.Threads(cores="all"), "cores"),
    ],
)
def test_solve_and_the_options(attempt: Callable[[], Any], named: str) -> None:
    assert named in refusal(attempt)


@pytest.mark.parametrize(
    ("attempt", "named"),
    [
        *((lambda v=v: POSTERIOR.quantile("a", v), "level") for v in (2, -0.1, np.nan, "half", None, [0.5, 2])),
        *((lambda v=v: POSTERIOR.predict(RECORD, level=v), "level") for v in (2, -1, np.nan, "90 %")),
        *((lambda v=v: POSTERIOR.states(v), "record") for v in (1, -2, 0.0, None, "steps")),
        *((lambda v=v: POSTERIOR.states(draws=v), "draws") for v in (0, -1, 1.5, None, 10**12)),
        *((lambda v=v: POSTERIOR.simulate(RECORD, particles=v), "particles") for v in (0, -1, 1.5, "all")),
        *((lambda v=v: POSTERIOR.simulate(RECORD, steps=v), "steps") for v in (0, -1, 1.5, "auto")),
        *((lambda v=v: POSTERIOR.simulate(RECORD, skip=v), "skip") for v in (-1, 1.5, "all")),
        *(
            (lambda v=v: POSTERIOR.simulate(RECORD, initial="estimate", initial_samples=v), "initial_samples")
            for v in (0, 1.5, "all")
        ),
        *((lambda v=v: POSTERIOR.predict(RECORD, ahead=v), "ahead") for v in (0, -1, 1.5, "all")),
        *((lambda v=v: POSTERIOR.forecast(v), "record") for v in (None, "data.csv", RECORD)),
        *((lambda v=v: POSTERIOR.simulate(v), "record") for v in (None, "data.csv", [RECORD])),
        *((lambda v=v: POSTERIOR.simulate(RECORD, initial=v), "initial") for v in (0.0, [0.0], {"x": 1.0}, {}, "end")),
        *((lambda v=v: POSTERIOR.simulate(RECORD, seed=v), "seed") for v in (-1, 2**64, None)),
        *((lambda v=v: POSTERIOR.refined(v), "draws") for v in (0, -1, 1.5, None)),
        *((lambda v=v: POSTERIOR.to_arviz(v), "draws") for v in (0, -1, 1.5)),
        *((lambda v=v: POSTERIOR.residuals(record=v), "record") for v in (1, -2, "steps")),
        (lambda: POSTERIOR.residuals("x"), "output"),
        *((lambda v=v: POSTERIOR.mean(v), "posterior") for v in ("c", None, 0)),
        *((lambda v=v: POSTERIOR.save(v), "") for v in (os.path.join("no", "p.nc"), ".", "", None, "a\0b")),
        *((lambda v=v: POSTERIOR.report(v), "") for v in (os.path.join("no", "p.html"), ".", None)),
        *((lambda v=v: ps.Posterior.load(v), "") for v in ("absent.nc", ".", None)),
        *((lambda v=v: ps.Identifier.load(v), "") for v in ("absent.npz", ".", None)),
    ],
)
def test_the_posterior(attempt: Callable[[], Any], named: str) -> None:
    assert named in refusal(attempt)


@pytest.mark.parametrize(
    "attempt",
    [lambda: ps.identify(**GIVEN), lambda: ps.Identifier(**ONLINE), lambda: ps.solve(MODEL, TRUTH, RECORD)],
)
def test_inside_jit(attempt: Callable[[], Any]) -> None:
    assert "inside of jax.jit" in refusal(lambda: jax.jit(lambda x: attempt())(1.0))


@pytest.mark.parametrize(
    ("particles", "islands", "chain"), [(64, 63, 1), (10, 4, 1), (7, 4, 2), (3, 3, 2), (100, 64, 1)]
)
def test_advice_on_particles_is_good(particles: int, islands: int, chain: int) -> None:
    said = refusal(lambda: ps.Sampler(particles=particles, islands=islands, chain=chain))
    ps.Sampler(particles=int(said.rstrip(".").split()[-1]), islands=islands, chain=chain)
