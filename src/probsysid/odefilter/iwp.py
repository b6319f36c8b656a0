"""The integrated Wiener process: the prior over a coordinate and its first q derivatives.

In physical coordinates the transition over a step h and its noise are (paper, eq. IWP_2, counting from zero)

    A(h)[i, j] = h^(j-i) / (j-i)!                                  for j >= i
    Q(h)[i, j] = h^(2q+1-i-j) / ((2q+1-i-j) (q-i)! (q-j)!)

whose entries span many decades.  Dividing component i by its Nordsieck scale s_i = h^(q-i+1/2) / (q-i)! gives matrices
that do not depend on h: a Pascal matrix, and Q[i, j] = 1 / (2q+1-i-j).  The filter works in these scaled coordinates
throughout, in which the diffusion has its physical value.
"""

from math import comb, factorial

import numpy as np
from jaxtyping import Float

Matrix = Float[np.ndarray, "component component"]


def transition(smoothness: int) -> Matrix:
    """A in scaled coordinates."""
    q = smoothness
    return np.array([[comb(q - i, j - i) if j >= i else 0 for j in range(q + 1)] for i in range(q + 1)], dtype=float)


def process(smoothness: int) -> Matrix:
    """Q in scaled coordinates, for unit diffusion."""
    q = smoothness
    return np.array([[1 / (2 * q + 1 - i - j) for j in range(q + 1)] for i in range(q + 1)])


def process_factor(smoothness: int) -> Matrix:
    """The lower triangular square root of Q in scaled coordinates.

    Q is a Cauchy matrix, 1 / (x_i + x_j) with x_i = q - i + 1/2, too ill-conditioned for a numerical Cholesky at high
    q.  Its Schur complements are known in closed form (each elimination multiplies entry i, j by
    (x_i - x_k)(x_j - x_k) / ((x_i + x_k)(x_j + x_k))), which gives every entry to full relative precision.
    """
    x = smoothness + 0.5 - np.arange(smoothness + 1)
    ratios = (x[:, None] - x[None, :]) / (x[:, None] + x[None, :])
    factor = np.zeros((smoothness + 1, smoothness + 1))
    for k in range(smoothness + 1):
        eliminated = np.prod(ratios[k:, :k], axis=1)
        factor[k:, k] = (-1) ** k * np.sqrt(2 * x[k]) / (x[k:] + x[k]) * eliminated
    return factor


def scale(smoothness: int, step: float | np.ndarray) -> Float[np.ndarray, "*step component"]:
    """The Nordsieck scale of each component, for one step length or many: physical = scale * scaled."""
    q = smoothness
    return np.stack([step ** (q - i + 0.5) / factorial(q - i) for i in range(q + 1)], axis=-1)


def physical_transition(smoothness: int, step: float) -> Matrix:
    """A(h) in physical coordinates."""
    s = scale(smoothness, step)
    return transition(smoothness) * s[:, None] / s[None, :]


def physical_process(smoothness: int, step: float) -> Matrix:
    """Q(h) in physical coordinates, for unit diffusion."""
    s = scale(smoothness, step)
    return process(smoothness) * s[:, None] * s[None, :]
