"""The same posterior as an independent library: probdiffeq (Krämer), at the same prior, linearisation and steps."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probdiffeq import ivpsolve, probdiffeq

import probsysid as ps
from probsysid.odefilter.diffusion import Fixed
from probsysid.odefilter.linearise import EKF0, EKF1
from probsysid.odefilter.smoothing.smoother import smooth
from tests.odefilter.cases import Case

# Both are square-root filters in the same scaled coordinates: only round-off differs.
TOLERANCE = 1e-8

GRID = np.concatenate([np.linspace(0, 1, 11), np.linspace(1, 3, 11)[1:]])  # two step lengths


def predator_prey(y: Any) -> list[Any]:
    return [0.5 * y[0] - 0.05 * y[0] * y[1], -0.5 * y[1] + 0.05 * y[0] * y[1]]


def van_der_pol(y: Any, dy: Any) -> Any:
    return 2.0 * (1 - y**2) * dy - y


MODELS = {
    "Lotka-Volterra": ps.Model(
        {"x": 1, "y": 1}, lambda s, u, p: dict(zip("xy", predator_prey([s.x, s.y]), strict=True))
    ),
    "van der Pol, second order": ps.Model({"x": 2}, lambda s, u, p: {"x": van_der_pol(s.x, s.dx)}),
}
PROBLEMS = {
    "Lotka-Volterra": probdiffeq.ode(
        lambda y, /, *, t: jnp.stack(predator_prey(y)), jacobian=probdiffeq.jacobian_materialize()
    ),
    "van der Pol, second order": probdiffeq.ode_order_two(
        lambda y, dy, /, *, t: van_der_pol(y, dy), jacobian=probdiffeq.jacobian_materialize()
    ),
}
START = {"Lotka-Volterra": [np.array([20.0, 15.0])], "van der Pol, second order": [np.array([2.0]), np.array([0.3])]}
SMOOTHNESS = {"Lotka-Volterra": 2, "van der Pol, second order": 3}
DIFFUSION = {"Lotka-Volterra": (3.0, 0.7), "van der Pol, second order": (2.0,)}


def theirs(name: str, first_order: bool, smoothing: bool) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation, (point, coordinate, derivative)."""
    ode = PROBLEMS[name]
    start = [jnp.asarray(value) for value in START[name]]
    expand = probdiffeq.jetexpand_ode_unroll(num=SMOOTHNESS[name] + 1 - len(START[name]))
    model = probdiffeq.state_space_model_dense()
    constraint = (
        model.constraint_residual(probdiffeq.residual_from_ode(ode)) if first_order else model.constraint_ode_ts0(ode)
    )
    strategy = probdiffeq.strategy_smoother_fixedinterval() if smoothing else probdiffeq.strategy_filter()
    solver = probdiffeq.solver(constraint=constraint, strategy=strategy)

    @jax.jit
    def solve(grid: Any) -> Any:
        coefficients, _ = expand(ode, start, t=0.0)
        prior = model.prior_wiener_integrated(coefficients, output_scale=jnp.asarray(DIFFUSION[name]))
        solution = ivpsolve.solve_fixed_grid(solver=solver)(prior, grid=grid)
        return jnp.stack(solution.u.mean, axis=-1), jnp.stack(solution.u.std, axis=-1)

    mean, sd = solve(GRID)
    return np.array(mean), np.array(sd)


def case(name: str, first_order: bool) -> Case:
    model = MODELS[name]
    coordinates = len(model.orders)
    start = np.concatenate(START[name])[:, None]
    return Case(
        model,
        (SMOOTHNESS[name],) * coordinates,
        time=GRID,
        outputs=np.full((len(GRID), coordinates), np.nan),
        noise=np.ones((coordinates, 1)),
        initial_mean=start,
        initial_sd=np.zeros_like(start),
        linearisation=EKF1() if first_order else EKF0(),
        diffusion=Fixed(DIFFUSION[name]),
        uniform=False,
    )


@pytest.mark.parametrize(
    ("name", "first_order"),
    [
        pytest.param("Lotka-Volterra", False, marks=pytest.mark.long, id="Lotka-Volterra, EKF0"),
        pytest.param("Lotka-Volterra", True, marks=pytest.mark.long, id="Lotka-Volterra, EKF1"),
        pytest.param("van der Pol, second order", False, marks=pytest.mark.long, id="van der Pol, EKF0"),
        pytest.param("van der Pol, second order", True, id="van der Pol, EKF1"),
    ],
)
def test_same_mean_and_standard_deviation(name: str, first_order: bool) -> None:
    ours = case(name, first_order)
    trajectory = ours.trace()
    for smoothing, states in [(False, trajectory.filtered), (True, smooth(trajectory, ours.layout))]:
        mean, sd = theirs(name, first_order, smoothing)
        size, largest = np.max(np.abs(mean), axis=0), np.max(sd, axis=0)
        assert np.max(np.abs(np.reshape(states.mean, mean.shape) - mean) / size) < TOLERANCE
        # With EKF0 the highest derivative has no variance after conditioning on the ODE; theirs is round-off.
        scale = np.maximum(largest, 1e-8 * size)
        assert np.max(np.abs(np.reshape(states.sd, sd.shape) - sd) / scale) < TOLERANCE
        assert np.min(largest[:, 0]) > 1e-6 * np.min(size[:, 0])
