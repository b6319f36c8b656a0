"""Unknown inputs and drifts as coordinates of the model."""

import numpy as np
import numpyro.distributions as dist
import pytest

import probsysid as ps
from probsysid.model.kernels import Kernel
from probsysid.model.latent_processes import LatentProcesses
from probsysid.model.problem import Problem
from probsysid.posterior.stored_setup import decode_setup, encode_setup

OSCILLATOR = ps.Model(
    {"x": 2}, lambda s, u, p: {"x": u.force + u.load - p.c * s.dx - p.k * s.x}, lambda s, u, p: {"y": s.x, "a": s.ddx}
)
PRIORS = {"c": dist.LogNormal(-1.0, 0.5), "k": dist.LogNormal(0.0, 0.5)}
GUST = ps.Matern(2.5, scale=dist.LogNormal(0.0, 1.0), length=2.0)
LEVELS, START = {"y": 0.1, "a": 0.1}, {"x": 0.0, "dx": 0.0}
WANDERING = ps.RandomWalk(rate=dist.HalfNormal(0.1))


def problem(
    unknown: dict[str, Kernel], drifts: dict[str, Kernel] | None = None, measured: tuple[str, ...] = ()
) -> Problem:
    latent = LatentProcesses.make(OSCILLATOR, PRIORS, unknown, drifts or {}, measured)
    return Problem.make(OSCILLATOR, PRIORS, LEVELS, [START], {}, {}, latent)


def test_an_unknown_input_is_a_sum_of_coordinates() -> None:
    """The equations at one point, by hand."""
    found = problem({"force": GUST + ps.Constant(dist.Normal(0.0, 1.0))}, {"k": WANDERING})
    model = found.model
    assert dict(model.coordinates) == {"x": 2, "force_1": 2, "force_2": 1, "k_drift": 1}
    assert model.input_names == ("load",) and found.given_model is OSCILLATOR
    values = {"c": 0.3, "k": 2.0, "force.matern.scale": 0.7, "force.matern.length": 2.0, "force.constant.value": 0.5}
    values |= {"k.rate": 0.05, "k.start": 0.0}
    state = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]  # x, dx, force_1, dforce_1, force_2, k_drift
    rates = [float(rate) for rate in model.highest_derivatives(state, [1.0], values)]
    a = np.sqrt(5) / 2
    acceleration = (0.5 + 0.3) + 1.0 - 0.3 * 0.2 - 2.0 * np.exp(0.6) * 0.1
    expected = [acceleration, -(a**2) / 3 * 0.3 + 0.5, -8 / 3 * a**2 * 0.4 - 3 * a * 0.5, 0.0]
    np.testing.assert_allclose(rates, expected, rtol=1e-14)
    particle = found.particle(values, 0)
    p = [0.7, 0.7 * a / np.sqrt(3), 0.7 * a**2 * np.sqrt(8) / 3, 0.0]
    np.testing.assert_allclose(particle.initial_sd, [0.0, 0.0, *p], rtol=1e-14)
    assert particle.process_noise is not None
    assert [s is None for s in particle.process_noise] == [True, True, False, False]
    np.testing.assert_allclose(particle.process_noise[2:], [p[2] * np.sqrt(6 * a), 0.05], rtol=1e-14)


def test_a_drift_of_a_parameter_that_may_be_negative_is_absolute() -> None:
    latent = LatentProcesses.make(OSCILLATOR, {**PRIORS, "k": dist.Normal(1.0, 1.0)}, {}, {"k": WANDERING})
    model = latent.joined(OSCILLATOR)
    rates = model.highest_derivatives([0.1, 0.2, 0.6], [0.0, 1.0], {"c": 0.3, "k": -2.0, "k.rate": 0.1, "k.start": 0.0})
    assert float(rates[0]) == pytest.approx(1.0 - 0.3 * 0.2 - (-2.0 + 0.6) * 0.1, rel=1e-14)


def test_hyperparameters_are_quantities() -> None:
    assert problem({"force": GUST}, {"k": WANDERING}).space.names == ("c", "k", "force.scale", "k.rate")


def test_a_measured_input_is_an_output() -> None:
    found = problem({"force": GUST}, measured=("force",))
    assert found.model.output_names == ("y", "a", "force")


def test_equal_structures_share_a_model() -> None:
    """So that they share compiled programs."""
    other = ps.Matern(2.5, scale=3.0, length=dist.LogNormal(0.0, 0.1))
    assert problem({"force": GUST}).model is problem({"force": other}).model
    assert problem({"force": GUST}).model is not problem({"force": ps.Matern(1.5, scale=1.0, length=1.0)}).model


def test_kernels_are_stored() -> None:
    every = GUST * ps.QuasiPeriodic(1.0, dist.LogNormal(0.0, 1.0), 2.0) + ps.Constant(dist.Normal(0.0, 1.0))
    stored = encode_setup(problem({"force": every}, {"k": WANDERING}, ("force",)), ps.Solver())
    found, _ = decode_setup(stored)
    assert found.latent.processes == problem({"force": every}, {"k": WANDERING}).latent.processes
    assert found.space.names == problem({"force": every}, {"k": WANDERING}).space.names
    assert found.latent.measured == ("force",) and encode_setup(found, ps.Solver()).keys() == stored.keys()


@pytest.mark.parametrize(
    ("unknown", "drifts", "sentence"),
    [
        ({"forse": GUST}, {}, "unknown names 'forse'; the model's inputs are: force, load. Did you mean 'force'?"),
        ({"force": 1.0}, {}, "unknown of 'force' is 1.0; it must be a kernel such as Matern"),
        ({}, {"q": WANDERING}, "drifts names 'q'; the model's parameters are: c, k."),
        ({}, {"k": ps.RandomWalk(rate=1.0, start=1.0)}, "where 'k' starts is said by its prior"),
    ],
)
def test_mistakes_are_named(unknown: dict[str, Kernel], drifts: dict[str, Kernel], sentence: str) -> None:
    with pytest.raises(ps.InputError) as error:
        problem(unknown, drifts)
    assert sentence in str(error.value)


def test_names_that_are_taken_are_named() -> None:
    model = ps.Model({"x": 1}, lambda s, u, p: {"x": u.dx - s.x})
    with pytest.raises(ps.InputError, match="'dx'"):
        LatentProcesses.make(model, {}, {"dx": ps.Matern(0.5, scale=1.0, length=1.0)}, {}).joined(model)


@pytest.mark.parametrize(
    ("solver", "sentence"),
    [
        (ps.Solver(substeps=1, linearisation="ekf0"), "'force' is an unknown input or a drift, and the solver's linea"),
        (ps.Solver(conditioning="solver"), "with which data never tell the state; use 'joint'"),
    ],
)
def test_solvers_that_cannot_infer_an_input_are_refused(solver: ps.Solver, sentence: str) -> None:
    record = ps.Record({"load": np.zeros(5)}, {"y": np.zeros(5)}, dt=0.1)
    with pytest.raises(ps.InputError) as error:
        ps.identify(OSCILLATOR, record, PRIORS, LEVELS, START, unknown={"force": GUST}, solver=solver)
    assert sentence in str(error.value)
