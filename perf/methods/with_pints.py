"""PINTS' adaptive Metropolis (Haario-Bardenet) on a Runge-Kutta likelihood in numba.

Set-up: starting points and initial proposals come from the Laplace approximation at the true parameters; one process
per core, chains distributed over them.
"""

import multiprocessing
import os
import time
from typing import Any

import numpy as np
import pints
from duffing import NAMES, TRUTH, natural, plain, record
from hand_over import Clock, hand_over, options
from laplace import laplace
from numba_likelihood import log_likelihood

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Target(pints.LogPDF):
    def __init__(self, samples: int) -> None:
        self.data = record(samples)

    def n_parameters(self) -> int:
        return len(NAMES)

    def __call__(self, z: Any) -> float:
        return log_likelihood(natural(z), *self.data) - 0.5 * float(np.sum(np.square(z)))


def chain(arguments: tuple[Any, ...]) -> tuple[np.ndarray, float]:
    """Draws and processor seconds of some chains."""
    target, starts, covariance, draws, warmup, seed = arguments
    busy = time.process_time()
    np.random.seed(seed)  # noqa: NPY002  PINTS draws from NumPy's global generator
    controller = pints.MCMCController(target, len(starts), starts, covariance, method=pints.HaarioBardenetACMC)
    controller.set_initial_phase_iterations(warmup // 2)
    controller.set_max_iterations(warmup + draws)
    controller.set_log_to_screen(False)
    return controller.run()[:, warmup:], time.process_time() - busy


def main() -> None:
    given = options(chains=4, warmup=1000, draws=10_000, seed=0)
    clock = Clock()
    with clock.phase("compile"):
        target = Target(given.samples)
        target(plain(TRUTH))
    with clock.phase("warm_up"):
        mode, covariance = laplace(lambda points: np.array([target(z) for z in points]), plain(TRUTH))
    rng = np.random.default_rng(given.seed)
    starts = rng.multivariate_normal(mode, covariance, size=given.chains)
    shares = np.array_split(starts, min(CORES, given.chains))
    tasks = [(target, share, covariance, given.draws, given.warmup, given.seed + i) for i, share in enumerate(shares)]
    began = time.perf_counter()
    with multiprocessing.get_context("fork").Pool(len(tasks)) as pool:
        results = pool.map(chain, tasks)
    clock.add("run", time.perf_counter() - began, sum(busy for _, busy in results))
    draws = np.concatenate([share for share, _ in results])
    values = np.moveaxis(natural(np.moveaxis(draws, -1, 0)), 0, 1)
    hand_over(given.out, clock, values, ("pints", "numba"), kind="chains")


if __name__ == "__main__":
    main()
