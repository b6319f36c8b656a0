"""Data that contradict the model: misfit is not integration error, and integrating badly is never rewarded."""

from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import probsysid as ps
from probsysid import dist
from probsysid.model.particle import Particle
from probsysid.model.problem import Problem
from probsysid.odefilter.arrays.step import ArrayFilter
from probsysid.odefilter.diffusion import LARGEST_BY_DATA
from probsysid.odefilter.filter_inputs import prepare
from probsysid.odefilter.layout import Layout
from probsysid.odefilter.ode_filter import ODEFilter
from probsysid.odefilter.smoothing.trajectory import trace
from probsysid.odefilter.unrolled.step import UnrolledFilter
from probsysid.parallel.threads import Threads
from probsysid.posterior.diagnostics.variance_decomposition import log_likelihood

DT, SAMPLES, MISFIT = 0.4, 100, 0.1


def oscillator(k: float) -> np.ndarray:
    """Positions of x'' = -0.1 x' - k x - x^3 / 2 + cos(0.9 t) / 2 at the samples, by fine integration."""
    time = np.arange(SAMPLES) * DT

    def rate(t: float, x: np.ndarray) -> list[float]:
        return [x[1], 0.5 * np.cos(0.9 * t) - 0.1 * x[1] - k * x[0] - 0.5 * x[0] ** 3]

    return solve_ivp(rate, (0, time[-1]), [1.0, 0.0], t_eval=time, rtol=1e-11, atol=1e-12).y[0]


MODEL = ps.Model(
    {"x": 2, "t": 1},  # the time as a state: an input would bring its own interpolation error
    lambda s, u, p: {
        "x": 0.5 * jnp.cos(0.9 * s.t) - 0.1 * s.dx - p.k * s.x - 0.5 * s.x**3,
        "t": 1.0 + 0.0 * s.t,
    },
    lambda s, u, p: {"y": s.x},
)
RECORD = ps.Record(inputs={}, outputs={"y": oscillator(1.15)}, dt=DT)
INITIAL = {"x": 1.0, "dx": 0.0, "t": 0.0}


NOISE = MISFIT * np.array([1.0, 0.1, 0.02, 0.01, 0.001])


@cache
def likelihoods(solver: ps.Solver) -> np.ndarray:
    """Of k = 1, which is not what the data were made with, for the noise levels in NOISE."""
    problem = Problem.make(MODEL, {"k": 1.0}, {"y": dist.LogNormal(0.0, 1.0)}, [INITIAL], None)
    return log_likelihood(problem, solver, [RECORD], np.log(NOISE)[None], Threads(cores=1))


def output_error(noise: np.ndarray) -> np.ndarray:
    """The likelihood of an exact solution with white noise."""
    squares = np.sum((RECORD.outputs["y"] - oscillator(1.0)) ** 2)
    return -SAMPLES * np.log(np.sqrt(2 * np.pi) * noise) - squares / noise**2 / 2


@pytest.mark.parametrize("linearisation", [pytest.param(ps.EKF1(), marks=pytest.mark.long), ps.EKF1(iterations=3)])
def test_the_likelihood_of_a_wrong_model_converges_to_output_error(linearisation: Any) -> None:
    """With noise of the size of the misfit, and with a fiftieth of it.  The integration error of an IWP of smoothness
    q = 4 converges with order 4 (test_convergence.py), its variance with order 8; half of that is required."""
    chosen = np.array([0, 2])
    exact = output_error(NOISE[chosen])
    excess = np.array(
        [likelihoods(ps.Solver(substeps=s, linearisation=linearisation))[chosen] - exact for s in (2, 4, 8)]
    )
    assert np.all(np.abs(excess[1:]) < np.abs(excess[:-1]) / 2**4 + 1e-6 * np.abs(exact))
    np.testing.assert_allclose(excess[-1], 0.0, atol=1e-4 * np.max(np.abs(exact)))


@pytest.mark.parametrize("steps", [1, 2, pytest.param(4, marks=pytest.mark.long)])
def test_integrating_badly_is_never_rewarded(steps: int) -> None:
    """The smaller the noise, the less probable is a wrong model, however coarse the steps: there is no noise level at
    which the filter takes the misfit for integration error and follows the data."""
    found = likelihoods(ps.Solver(substeps=steps))
    assert np.all(np.diff(found) < 0)


@pytest.mark.parametrize("steps", [2, pytest.param(4, marks=pytest.mark.long)])
@pytest.mark.parametrize("form", [UnrolledFilter, ArrayFilter])
def test_the_diffusion_is_that_of_the_ode_alone(form: type[ODEFilter], steps: int) -> None:
    """A linear oscillator whose data belong to another one, noise 1e-6 of the motion: the filter follows the data.

    Solutions through the data's positions and velocities, 2 and 2 * 1.3, have at most 2.6 times the amplitude of the
    solution without data, and LARGEST_BY_DATA is what data may add: (2 * 2.6)^2.  With the data's part the diffusion is
    4e7 and 3e8 times as large.
    """
    model = ps.Model({"x": 2}, lambda s, u, p: {"x": -p.k * s.x}, lambda s, u, p: {"y": s.x})
    record = ps.Record(inputs={}, outputs={"y": 2 * np.cos(1.3 * np.arange(SAMPLES) * DT)}, dt=DT)
    particles = Particle({"k": np.ones(1)}, [np.full(1, 1e-6)], [np.ones(1), np.zeros(1)], [np.zeros(1)] * 2)
    typical = {}
    for joint in (True, False):
        ode_filter = form(model, Layout((2,), (4,)), ps.EKF1(), ps.Dynamic(2.0), joint=joint)
        trajectory = trace(ode_filter, particles, prepare(record, ode_filter, steps), record.time)
        typical[joint] = np.median(np.asarray(trajectory.variance)[10:])
    assert typical[True] / typical[False] < (LARGEST_BY_DATA * 2.6) ** 2


@pytest.mark.parametrize(
    ("diffusion", "rewarded"), [(None, False), pytest.param(ps.QuasiMLE(), True, marks=pytest.mark.long)]
)
def test_a_singular_start_does_not_buy_freedom_for_the_rest_of_the_record(diffusion: Any, rewarded: bool) -> None:
    """Two tanks, the upper one empty at first, where the square root's slope is singular; the data are a smooth curve
    that no outflow explains.  With a mean over all steps, the residuals of the first ones make room for it."""
    time = np.arange(200) * 4.0
    level = 6 + 2 * np.sin(0.02 * time) + 0.5 * np.sin(0.05 * time)
    record = ps.Record(inputs={"flow": np.full(200, 2.0)}, outputs={"level": level}, dt=4.0, intersample="zoh")

    def root(x: Any) -> Any:
        return jnp.sqrt(jnp.maximum(x, 1e-6))

    model = ps.Model(
        {"h1": 1, "h2": 1},
        lambda s, u, p: {"h1": 0.0013 * u.flow - 0.7 * root(s.h1), "h2": 0.005 * root(s.h1) - 0.001 * root(s.h2)},
        lambda s, u, p: {"level": s.h2},
    )
    initial = {"h1": 4e-5, "h2": 6.0}
    problem = Problem.make(model, {}, {"level": dist.LogNormal(0.0, 1.0)}, [initial], None)
    noise = np.array([1.5, 0.007])  # as large as the misfit, and much smaller

    def found(diffusion: Any) -> np.ndarray:
        solver = ps.Solver(substeps=2, linearisation="ekf1", diffusion=diffusion)
        return log_likelihood(problem, solver, [record], np.log(noise)[None], Threads(cores=1))

    honest, cheating = found(diffusion)
    assert (cheating > honest) == rewarded
