"""What the methods of the comparison share: the motion, the unconstrained space, the Laplace approximation."""

import numpy as np
import pytest

from perf.methods import duffing
from perf.methods.laplace import laplace


def test_motion_is_integrated_to_fourth_order():
    quantities = (1.0, 0.2, 1.0, 0.5)

    def end(steps: int) -> np.ndarray:
        x, v, interval = 1.0, -0.5, duffing.stepper(steps)
        for k in range(20):
            x, v = interval(x, v, np.sin(0.3 * k), np.sin(0.3 * (k + 1)), *quantities)
        return np.array([x, v])

    exact = end(64)
    errors = [np.linalg.norm(end(steps) - exact) for steps in (4, 8)]
    # Order 4, with a next term that is smaller by a step of 1/16 to 1/32.
    assert np.log2(errors[0] / errors[1]) == pytest.approx(4, abs=0.2)


def test_plain_space_and_back():
    assert duffing.natural(duffing.plain(duffing.TRUTH)) == pytest.approx(duffing.TRUTH, rel=1e-14)


def test_record_has_the_noise_it_says():
    _, noisy = duffing.record(400)
    quiet, truth = duffing.record(400), duffing.TRUTH.copy()
    assert np.array_equal(noisy, quiet[1])  # the same every time: all methods see one record
    interval, x, v = duffing.stepper(duffing.FINE), truth[5], truth[6]
    motion = [x]
    for left, right in zip(quiet[0][:-1], quiet[0][1:], strict=True):
        x, v = interval(x, v, left, right, *truth[:4])
        motion.append(x)
    # A standard deviation from n values is known to 1 / sqrt(2 n) of itself.
    assert np.std(noisy - motion) == pytest.approx(truth[4], rel=4 / np.sqrt(800))


def test_laplace_of_a_gaussian_is_the_gaussian():
    mean, root = np.array([0.3, -0.2]), np.array([[0.02, 0.0], [0.015, 0.01]])
    precision = np.linalg.inv(root @ root.T)
    mode, covariance = laplace(lambda z: -0.5 * np.einsum("ni,ij,nj->n", z - mean, precision, z - mean), np.zeros(2))
    # Second differences of a value near zero with a step of 1e-3: rounding of 1e-16 over 1e-6, times the condition.
    assert mode == pytest.approx(mean, abs=1e-8)
    assert covariance == pytest.approx(root @ root.T, rel=1e-6)
