"""The pilot: Runge-Kutta steps that count as exact, as a target of the sampler."""

from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import probsysid as ps
from probsysid.model.problem import Problem
from probsysid.odefilter.continuous_discrete import LARGEST
from probsysid.odefilter.runge_kutta import MOST_WRITTEN_OUT
from probsysid.parallel.threads import Threads
from probsysid.posterior.simulate import simulate
from probsysid.targets.batch_target import BatchTarget
from probsysid.targets.integrators import has_pilot, why_no_pilot

MODEL = ps.Model(
    {"x": 2, "z": 1},
    lambda s, u, p: {"x": u.force - p.k * s.x - 0.3 * s.dx - s.z, "z": s.dx - p.k * s.z},
    lambda s, u, p: {"position": s.x, "acceleration": s.ddx},
)
NOISE = {"position": ps.dist.LogNormal(-2.0, 1.0), "acceleration": 0.2}
INITIAL = {"x": ps.dist.Normal(0.0, 1.0), "dx": 0.5, "z": 0.0}


def record(seed: int, intersample: str, irregular: bool) -> ps.Record:
    """Any numbers will do; some are missing."""
    random = np.random.default_rng(seed)
    time = np.cumsum(random.uniform(0.05, 0.15, 40)) if irregular else 0.1 * np.arange(40)
    outputs = {name: random.standard_normal(40) for name in MODEL.output_names}
    outputs["position"][[0, 7]] = np.nan
    return ps.Record({"force": random.standard_normal(40)}, outputs, time=time, intersample=intersample)


def problem(records: int, **changes: Mapping[str, object]) -> Problem:
    return Problem.make(
        MODEL,
        **{
            "priors": {"k": ps.dist.LogNormal(0.0, 1.0)},
            "noise": NOISE,
            "initials": [INITIAL] * records,
            "process_noise": {},
            **changes,
        },
    )


@pytest.mark.parametrize(("intersample", "irregular"), [("linear", False), ("zoh", True)])
def test_energies_are_those_of_simulated_outputs(intersample: str, irregular: bool) -> None:
    """Two records, two outputs, some of them missing: against the free run and the normal density."""
    records = tuple(record(seed, intersample, irregular) for seed in (0, 1))
    asked = problem(2)
    target = BatchTarget(asked, ps.Solver(), records, 4, Threads(cores=1)).with_runge_kutta(3)
    theta = np.random.default_rng(2).standard_normal((4, 4))
    _, likelihood, energy = target.sweep(theta, target.samples)
    values = {name: np.asarray(value) for name, value in asked.space.values(theta).items()}
    expected = np.zeros(4)
    for r, each in enumerate(records):
        start = np.stack([values[f"initial[{r}].x"], np.full(4, 0.5), np.zeros(4)])
        outputs, _, _ = simulate(MODEL, {"k": values["k"]}, start, each, steps=3)
        for name, sd in (("position", values["noise.position"]), ("acceleration", np.full(4, 0.2))):
            white = (each.outputs[name] - outputs[name]) / sd[:, None]
            terms = -0.5 * white**2 - np.log(np.sqrt(2 * np.pi) * sd)[:, None]
            expected += np.nansum(terms, axis=1)
    np.testing.assert_allclose(likelihood - energy, expected, rtol=1e-9)


def test_there_is_a_pilot_unless_noise_is_coloured_or_a_disturbed_state_is_large() -> None:
    """The covariance of a large state has no cheap form yet."""
    assert has_pilot(problem(1))
    assert has_pilot(problem(1, process_noise={"x": ps.dist.HalfNormal(1.0)}))
    assert not has_pilot(problem(1, noise={**NOISE, "position": ps.Noise(0.1, time=1.0)}))
    names = [f"x{i}" for i in range(LARGEST // 2 + 1)]
    chain = ps.Model(dict.fromkeys(names, 2), lambda s, u, p: {name: -p.k * s[name] for name in names})
    start = dict.fromkeys(chain.physical_names, 0.0)
    asked = [{"k": ps.dist.LogNormal(0.0, 1.0)}, dict.fromkeys(names, 0.1), [start]]
    assert has_pilot(Problem.make(chain, *asked, {}))
    assert "more than 12 components" in why_no_pilot(Problem.make(chain, *asked, {"x0": 0.1}))


def test_a_model_of_many_terms_has_the_same_energies() -> None:
    """The stages of its steps are a loop; those of a small model are written out."""
    names = [f"a{i}" for i in range(40)]
    many = ps.Model(
        {"x": 2},
        lambda s, u, p: {"x": u.force - s.dx - s.x + sum(p[n] * jnp.sin((i + 1) * s.x) for i, n in enumerate(names))},
    )
    assert many.operations > MOST_WRITTEN_OUT > MODEL.operations
    random = np.random.default_rng(3)
    data = ps.Record({"force": random.standard_normal(20)}, {"x": random.standard_normal(20)}, dt=0.1)
    priors = {name: ps.dist.Normal(0.0, 0.1) for name in names}
    asked = Problem.make(many, priors, {"x": 0.3}, [{"x": 0.2, "dx": 0.0}], {})
    target = BatchTarget(asked, ps.Solver(), (data,), 4, Threads(cores=1)).with_runge_kutta(2)
    theta = 0.1 * random.standard_normal((40, 4))
    _, likelihood, energy = target.sweep(theta, target.samples)
    start = np.repeat([[0.2], [0.0]], 4, axis=1)
    outputs, _, _ = simulate(many, dict(zip(names, theta, strict=True)), start, data, steps=2)
    expected = stats.norm.logpdf(data.outputs["x"], outputs["x"], 0.3).sum(axis=1)
    np.testing.assert_allclose(likelihood - energy, expected, rtol=1e-10)
