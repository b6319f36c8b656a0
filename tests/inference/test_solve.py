"""The solver on its own: uncertain initial values are carried along, neither lost nor narrowed."""

import numpy as np
import pytest
from scipy.linalg import expm

import probsysid as ps
from probsysid import dist

MATRIX = np.array([[0.0, 1.0], [-2.0, -0.3]])
SD = np.array([0.1, 0.2])

model = ps.Model({"x": 2}, lambda s, u, p: {"x": -2.0 * s.x - 0.3 * s.dx}, lambda s, u, p: {"y": s.x})


@pytest.fixture(scope="module")
def solution() -> ps.Solution:
    """Two steps per sample: inside the filter the start would lose most of its spread."""
    initial = {"x": dist.Normal(1.0, SD[0]), "dx": dist.Normal(0.5, SD[1])}
    return ps.solve(model, {}, np.linspace(0, 10, 51), initial=initial, solver=ps.Solver(smoothness=3, substeps=2))


def exact(time: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and sd of the position."""
    rows = np.array([expm(MATRIX * t)[0] for t in time])
    return rows @ [1.0, 0.5], np.sqrt(rows**2 @ SD**2)


def test_a_gaussian_start_of_a_linear_ode(solution: ps.Solution) -> None:
    between = np.linspace(0, 10, 37)
    for part, time in ((solution, solution.time), (solution.at(between), between)):
        mean, sd = exact(time)
        # the integration's own error is far below
        np.testing.assert_allclose(part.mean["x"], mean, atol=1e-3)
        np.testing.assert_allclose(part.sd["x"], sd, rtol=1e-3)


def test_draws_have_that_spread(solution: ps.Solution) -> None:
    draws = solution.samples(4000)["x"]
    mean, sd = exact(solution.time)
    # four standard errors of a mean and of a standard deviation
    np.testing.assert_array_less(np.abs(draws.mean(axis=0) - mean), 4 * sd / np.sqrt(4000))
    np.testing.assert_array_less(np.abs(draws.std(axis=0) / sd - 1), 4 / np.sqrt(2 * 4000))


def test_a_random_solution_is_refused() -> None:
    noisy = ps.Model(
        {"x": 1}, lambda s, u, p: {"x": -s.x}, lambda s, u, p: {"y": s.x}, diffusion=lambda s, u, p: {"x": 0.1}
    )
    with pytest.raises(ps.InputError, match="has a diffusion: its solution is random"):
        ps.solve(noisy, {}, np.linspace(0, 1, 5))
