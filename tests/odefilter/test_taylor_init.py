"""Taylor-mode initialisation against derivatives computed by hand."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import probsysid  # noqa: F401  (double precision)
from probsysid.model.model import Model
from probsysid.odefilter.diffusion import Fixed
from probsysid.odefilter.layout import Layout
from probsysid.odefilter.linearise import EKF0, EKF1
from probsysid.odefilter.taylor_init import nested_derivative, taylor_derivatives
from tests.odefilter.cases import Case

# A few dozen operations on numbers of order one.
ROUNDING = 1e-13


def test_exponential_growth() -> None:
    """x' = a x: the k-th derivative is a^k x."""
    found = taylor_derivatives(lambda x, u: [-1.7 * x[0]], Layout((1,), (6,)), [0.8], [])
    np.testing.assert_allclose(found, 0.8 * (-1.7) ** np.arange(7), rtol=ROUNDING)


def test_logistic_growth() -> None:
    """x' = x (1 - x), whose derivatives are polynomials in x: each follows from the last by the chain rule."""
    polynomial, expected, x = np.polynomial.Polynomial([0, 1]), [], 0.3
    for _ in range(7):
        expected.append(polynomial(x))
        polynomial = polynomial.deriv() * np.polynomial.Polynomial([0, 1, -1])
    found = taylor_derivatives(lambda x, u: [x[0] * (1 - x[0])], Layout((1,), (6,)), [x], [])
    np.testing.assert_allclose(found, expected, rtol=ROUNDING, atol=ROUNDING)


def test_pendulum() -> None:
    """x'' = -sin x, differentiated by hand."""
    x, v = 0.7, -1.2
    a = -np.sin(x)
    third = -np.cos(x) * v
    fourth = np.sin(x) * v**2 - np.cos(x) * a
    fifth = np.cos(x) * v**3 + 3 * np.sin(x) * v * a - np.cos(x) * third
    found = taylor_derivatives(lambda s, u: [-jnp.sin(s[0])], Layout((2,), (5,)), [x, v], [])
    np.testing.assert_allclose(found, [x, v, a, third, fourth, fifth], rtol=ROUNDING)


def test_forced_and_coupled_of_different_smoothness() -> None:
    """x'' = u - z, z' = x' with a known input; x to its 5th derivative, z only to its 2nd."""
    u, x, dx, z = [0.3, -1.0, 0.5, 2.0], 0.2, 0.7, -0.4
    ddx = u[0] - z
    dddx = u[1] - dx
    ddddx = u[2] - ddx
    dddddx = u[3] - dddx
    found = taylor_derivatives(lambda s, f: [f[0] - s[2], s[1]], Layout((2, 1), (5, 2)), [x, dx, z], [jnp.asarray(u)])
    np.testing.assert_allclose(found, [x, dx, ddx, dddx, ddddx, dddddx, z, dx, ddx], rtol=ROUNDING)


def test_third_order() -> None:
    """x''' = -x x': derivatives by hand."""
    x, v, a = 0.5, 0.6, -0.8
    third = -x * v
    fourth = -v * v - x * a
    fifth = -3 * v * a - x * third
    found = taylor_derivatives(lambda s, u: [-s[0] * s[1]], Layout((3,), (5,)), [x, v, a], [])
    np.testing.assert_allclose(found, [x, v, a, third, fourth, fifth], rtol=ROUNDING)


# Functions that `jet` does not support fall back to nested forward mode; on all others the two must agree, because a
# wrong rule of an experimental module would go unnoticed.
FUNCTIONS = {
    "tan (jet refuses)": lambda x: jnp.tan(x / 3),
    "softplus (custom derivative, jet refuses)": jax.nn.softplus,
    "cond (jet refuses)": lambda x: jax.lax.cond(x > 0, lambda y: y**2, lambda y: y**3, x),
    "tanh": jnp.tanh,
    "abs": lambda x: jnp.abs(x) * x,
    "sign": lambda x: jnp.sign(x) * x**2,
    "where": lambda x: jnp.where(x > 0, x**2, jnp.sin(x)),
    "sqrt": lambda x: jnp.sqrt(2 + x),
    "power": lambda x: (2 + x) ** 2.5,
    "quotient": lambda x: x / (1 + x * x),
    "trigonometric": lambda x: jnp.sin(x) * jnp.cos(2 * x),
    "dot product": lambda x: jnp.dot(jnp.stack([x, x**3]), jnp.stack([x**2, 1 + x])),
}


@pytest.mark.parametrize("refused", [True, pytest.param(False, marks=pytest.mark.long)])
def test_taylor_mode_equals_nested_forward_mode(refused: bool) -> None:
    """Derivatives of x' = f(x) up to the 3rd, and their sensitivity to x, of all functions in one program."""
    chosen = {name: function for name, function in FUNCTIONS.items() if ("jet refuses" in name) == refused}

    def by_package(function: Any, x: Any) -> Any:
        return jnp.stack(taylor_derivatives(lambda s, u: [function(s[0])], Layout((1,), (3,)), [x], []))

    def by_nesting(function: Any, x: Any) -> Any:
        known = [x, function(x)]
        for k in range(1, 3):
            known.extend(nested_derivative(lambda s: [function(s)], [known[: k + 1]], k))
        return jnp.stack(known)

    @jax.jit
    def compare(x: Any) -> Any:
        return {
            name: [jax.jvp(partial(by, function), (x,), (1.0,)) for by in (by_package, by_nesting)]
            for name, function in chosen.items()
        }

    for x in (0.4, -0.7):
        for name, ((found, slopes), (expected, expected_slopes)) in compare(x).items():
            np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11, err_msg=name)
            np.testing.assert_allclose(slopes, expected_slopes, rtol=1e-11, atol=1e-11, err_msg=name)


def test_nested_forward_mode_against_a_closed_form() -> None:
    """x' = tan(x), which jet does not support: x'' = tan sec^2, x''' = tan sec^2 (sec^2 + 2 tan^2); compiled."""
    x = 0.4
    t, s = np.tan(x), 1 / np.cos(x) ** 2  # t' = s t, s' = 2 t s t along the solution
    expected = [x, t, s * t, 2 * t**2 * s * t + s**2 * t]
    found = jax.jit(lambda x: taylor_derivatives(lambda v, u: [jnp.tan(v[0])], Layout((1,), (3,)), [x], []))(x)
    np.testing.assert_allclose(found, expected, rtol=ROUNDING)


def started(linearisation: Any) -> tuple[Case, np.ndarray, np.ndarray]:
    """A linear oscillator at its first sample, before data: mean and covariance of x, ..., ddddx."""
    model = Model(
        {"x": 2},
        lambda s, u, p: {"x": u.force - p.c * s.dx - p.k * s.x},
        lambda s, u, p: {"position": s.x},
    )
    case = Case(
        model,
        (4,),
        time=np.array([0.0, 0.1]),
        outputs=np.full((2, 1), np.nan),
        noise=np.ones((1, 1)),
        initial_mean=np.array([[0.3], [-0.8]]),
        initial_sd=np.array([[0.2], [0.5]]),
        parameters={"c": np.array([0.4]), "k": np.array([2.5])},
        grid=np.zeros((2, 1, 1)),
        inputs=np.array([[[0.7, 0.1, -0.4, 0.9, 0.2]]] * 2),
        linearisation=linearisation,
        diffusion=Fixed(1.0),
    )
    first = jax.tree.map(lambda leaf: leaf[0], case.sample)
    one = jax.tree.map(lambda leaf: leaf[0], case.particle)
    state = case.ode_filter.start(one, first)
    mean, factor = (np.array(moment) for moment in case.ode_filter.moments(state, first))
    return case, mean, factor @ factor.T


def test_initial_gaussian_of_a_linear_ode_is_exact() -> None:
    """Differentiating the linear ODE gives the derivatives as a matrix times (x, dx), plus the input's part."""
    case, mean, covariance = started(EKF1())
    c, k = case.parameters["c"][0], case.parameters["k"][0]
    matrix, offset = np.zeros((5, 2)), np.zeros(5)
    matrix[:2] = np.eye(2)
    for i in range(2, 5):
        matrix[i] = -c * matrix[i - 1] - k * matrix[i - 2]
        offset[i] = case.inputs[0, 0, i - 2] - c * offset[i - 1] - k * offset[i - 2]
    np.testing.assert_allclose(mean, matrix @ case.initial_mean[:, 0] + offset, rtol=ROUNDING)
    expected = matrix @ np.diag(case.initial_sd[:, 0] ** 2) @ matrix.T
    sd = np.sqrt(np.diag(expected))
    np.testing.assert_allclose(covariance / np.outer(sd, sd), expected / np.outer(sd, sd), atol=ROUNDING)


def test_with_ekf0_initial_higher_derivatives_have_no_variance() -> None:
    """EKF0 ignores how the ODE depends on the state; so the uncertainty of (x, dx) does not reach ddx."""
    case, mean, covariance = started(EKF0())
    expected = np.zeros((5, 5))
    expected[:2, :2] = np.diag(case.initial_sd[:, 0] ** 2)
    np.testing.assert_allclose(covariance, expected, atol=ROUNDING)
    np.testing.assert_allclose(mean, started(EKF1())[1], rtol=ROUNDING)
