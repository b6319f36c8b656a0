"""`log_likelihood`, and Fenrir and DALTON in `identify`."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import probsysid as ps
from probsysid import dist
from probsysid.model.particle import Particle
from probsysid.odefilter.arrays.step import as_array_filter
from probsysid.odefilter.data_given_ode import DataGivenODE
from probsysid.odefilter.differentiable import log_likelihood as of_particle
from probsysid.targets.integrators import ProbabilisticSolver

MODEL = ps.Model({"x": 1}, lambda s, u, p: {"x": u.f - p.k * s.x - 0.5 * s.x**3}, lambda s, u, p: {"y": s.x})


def record(samples: int = 12, seed: int = 0, start: float = 0.5) -> ps.Record:
    random = np.random.default_rng(seed)
    time = np.concatenate([[0.0], np.cumsum(random.uniform(0.1, 0.3, samples - 1))])
    output = start * np.exp(-time) + 0.1 * random.standard_normal(samples)
    output[4] = np.nan
    return ps.Record(inputs={"f": np.sin(time)}, outputs={"y": output}, time=time, intersample="linear")


RECORDS = [record(), record(9, 1, -0.3)]
FIXED = ps.Solver(smoothness=2, substeps=2, linearisation="ekf1", diffusion=0.7)
INFERRED = replace(FIXED, diffusion="inferred")


def at(x: Any, method: Any, **changes: Any) -> Any:
    given = {"noise": {"y": x[1]}, "initial": {"x": x[2]}, "solver": INFERRED, **changes}
    values = {"k": x[0], "solver.diffusion": x[3]} if given["solver"].diffusion == INFERRED.diffusion else {"k": x[0]}
    return ps.log_likelihood(MODEL, values, RECORDS, method=method, **given)


POINT = np.array([1.3, 0.12, 0.45, 0.7])


@pytest.mark.parametrize("method", ["filter", "fenrir", "dalton", "runge-kutta"])
def test_gradients_are_those_of_finite_differences(method: Any) -> None:
    """Central differences with step h err by h^2 and by 1e-16 / h: about 1e-9 here, relative to the largest."""
    gradient = np.asarray(jax.grad(lambda x: at(x, method))(POINT))
    steps = 1e-6 * np.eye(4)
    expected = np.array([(at(POINT + h, method) - at(POINT - h, method)) / 2e-6 for h in steps])
    np.testing.assert_allclose(gradient, expected, atol=1e-7 * np.max(np.abs(expected)), rtol=0)
    assert (gradient[3] == 0) == (method == "runge-kutta")  # it has no diffusion


@pytest.mark.long
def test_curvature_is_that_of_gradients() -> None:
    found = jax.hessian(lambda x: at(x, "fenrir"))(POINT)
    gradient = jax.jit(jax.grad(lambda x: at(x, "fenrir")))
    expected = np.array([(gradient(POINT + h) - gradient(POINT - h)) / 2e-5 for h in 1e-5 * np.eye(4)])
    np.testing.assert_allclose(found, expected, atol=1e-6 * np.max(np.abs(expected)), rtol=0)


def test_a_given_diffusion_is_an_inferred_one_of_that_value() -> None:
    for method in ("filter", "fenrir", "dalton"):
        assert at(POINT, method, solver=FIXED) == pytest.approx(float(at(POINT, method)), rel=1e-12)


def test_the_solver_says_which_likelihood_it_is() -> None:
    assert float(at(POINT, None, solver=replace(INFERRED, likelihood="dalton"))) == float(at(POINT, "dalton"))
    assert float(at(POINT, "fenrir")) != float(at(POINT, "dalton")) != float(at(POINT, "filter"))


def test_all_agree_where_steps_are_short() -> None:
    """Integration error vanishes with the step; with 16 steps of an order-2 method it is far below 1e-3."""
    fine = replace(INFERRED, substeps=16)
    exact = float(at(POINT, "runge-kutta", solver=fine))
    for method in ("filter", "fenrir", "dalton"):
        assert float(at(POINT, method, solver=fine)) == pytest.approx(exact, abs=2e-3)


def test_array_form_can_be_differentiated() -> None:
    sample_filter = ProbabilisticSolver(replace(FIXED, likelihood="fenrir")).sample_filter(MODEL, None)
    assert isinstance(sample_filter, DataGivenODE)
    alone, joint = (as_array_filter(each) for each in (sample_filter.alone, sample_filter.joint))
    samples = ProbabilisticSolver(FIXED).samples(RECORDS[0], sample_filter, 2)

    def value(k: Any, each: DataGivenODE) -> Any:
        zero = jnp.zeros(())
        return of_particle(each, Particle({"k": k}, [zero + 0.1], [zero + 0.4], [zero]), samples)

    ours, arrays = (
        jax.value_and_grad(value)(1.3, f) for f in (sample_filter, replace(sample_filter, alone=alone, joint=joint))
    )
    np.testing.assert_allclose(arrays, ours, rtol=1e-9)


SAMPLER = ps.Sampler(particles=64, islands=1)
PRIORS = {"k": dist.LogNormal(0, 0.5), "solver.diffusion": dist.LogNormal(0, 1)}


def test_posterior_with_fenrir_does_not_depend_on_the_path() -> None:
    """One sample after the other, and all at once: the same posterior up to Monte Carlo error."""
    solver = replace(INFERRED, likelihood="fenrir", substeps=1)
    given: dict[str, Any] = {"noise": {"y": 0.1}, "initial": {"x": 0.5}, "solver": solver}
    found = [
        ps.identify(MODEL, RECORDS[0], PRIORS, sampler=replace(SAMPLER, particles=512, path=path), **given)
        for path in ("data", "likelihood")
    ]
    # 512 particles, more than 256 effective: a mean errs by 1/16 sd, the difference of two by 0.09; allow four times.
    for name in ("k", "solver.diffusion"):
        one, other = (posterior.mean(name) for posterior in found)
        assert abs(one - other) < 0.36 * found[0].sd(name)
    evidence = [posterior.log_evidence for posterior in found]
    assert abs(evidence[0] - evidence[1]) < 0.5


def test_online_equals_batch_with_fenrir() -> None:
    solver = replace(FIXED, likelihood="fenrir", substeps=1)
    even = ps.Record(
        inputs={"f": np.sin(0.2 * np.arange(6))},
        outputs={"y": np.exp(-0.2 * np.arange(6))},
        dt=0.2,
        intersample="linear",
    )
    priors, noise, initial = {"k": PRIORS["k"]}, {"y": 0.1}, {"x": 1.0}
    batch = ps.identify(MODEL, even, priors, noise, initial, solver=solver, sampler=SAMPLER)
    online = ps.Identifier(MODEL, priors, noise, initial, 0.2, solver=solver, sampler=SAMPLER)
    for k in range(6):
        online.update({"f": even.inputs["f"][k]}, {"y": even.outputs["y"][k]})
    np.testing.assert_array_equal(online.posterior.theta, batch.theta)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: ps.Solver(likelihood="fenrire"), "likelihood is 'fenrire'.*Did you mean 'fenrir'"),
        (lambda: ps.Solver(likelihood="fenrir", conditioning="solver"), "conditioning is 'solver'"),
        (lambda: ps.Solver(likelihood="dalton", linearisation="block-ekf1"), "linearisation is BlockEKF1"),
        (lambda: at(POINT, "fenri"), "method is 'fenri'"),
        (lambda: at(POINT, "fenrir", noise={}), "noise has no entry for 'y'"),
        (lambda: at(POINT, "fenrir", noise={"y": 0.1, "z": 0.1}), "noise names 'z'"),
        (lambda: at(POINT, "fenrir", noise={"y": "loud"}), "noise of 'y' is 'loud'"),
        (lambda: at(POINT, "fenrir", initial={"v": 0.1}), "'v'"),
        (
            lambda: ps.log_likelihood(MODEL, {"k": 1.0}, RECORDS, noise={"y": 0.1}, solver=INFERRED),
            "values has neither",
        ),
        (
            lambda: ps.log_likelihood(MODEL, {"k": 1.0, "solver.diffusion": 1.0}, RECORDS, noise={"y": 0.1}),
            "values names 'solver.diffusion', but",
        ),
        (
            lambda: ps.identify(MODEL, RECORDS[0], PRIORS, {"y": 0.1}, {"x": 0.5}, solver=FIXED),
            "priors names 'solver.diffusion', but",
        ),
        (
            lambda: ps.identify(MODEL, RECORDS[0], {"k": 1.0}, {"y": 0.1}, {"x": dist.Normal(0, 1)}, solver=INFERRED),
            "priors has no 'solver.diffusion'",
        ),
        (
            lambda: ps.identify(MODEL, RECORDS[0], PRIORS | {"solver.diffusion.z": 1.0}, {"y": 0.1}, {"x": 0.5}),
            "priors names 'solver.diffusion.z'; known are: solver.diffusion, solver.diffusion.x",
        ),
        (
            lambda: ps.identify(
                MODEL,
                RECORDS[0],
                {"k": PRIORS["k"]},
                {"y": 0.1},
                {"x": 0.5},
                solver=ps.Solver(likelihood="fenrir"),
                process_noise={"x": 0.1},
            ),
            "with process noise, unknown inputs or drifts it does not",
        ),
    ],
)
def test_bad_input(call: Any, sentence: str) -> None:
    with pytest.raises(ps.InputError, match=sentence):
        call()
