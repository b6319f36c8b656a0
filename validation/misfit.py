"""Whether a likelihood gains by integrating badly: searches for the best posterior density of the cascaded tanks.

    python -m validation.misfit

The model with overflow is not quite right: output error leaves 0.19 V.  Searches start where bad integration could pay,
with a noise of a few millivolts and a nearly empty upper tank, whose outflow has a singular slope.  The honest maximum
has a log density of about 210 at a noise of 0.195 V; one that lies higher, at less noise, books misfit as integration
error.
"""

import jax
import numpy as np

import probsysid as ps
from probsysid.model.problem import Problem
from probsysid.odefilter.diffusion import Diffusion
from probsysid.odefilter.solver import LOCAL
from probsysid.parallel.default import default_executor
from probsysid.posterior.importance_sampling import LogTarget
from probsysid.posterior.map import FIRST_WIDTH
from probsysid.posterior.modes import Mode, find_modes
from probsysid.targets.batch_target import BatchTarget
from validation import tanks

KINDS: dict[str, Diffusion] = {"default": LOCAL, "QuasiMLE()": ps.QuasiMLE()}
STEPS = (1, 4)
STARTS = 14
LEVELS = (0.001, 0.5)
"""Range of the initial level of the upper tank, V."""
NOISES = (0.002, 0.05)
"""Range of the noise, V."""


def best(diffusion: Diffusion, steps: int) -> tuple[Mode, float]:
    """The best mode that searches from the bad starts reach, and its noise, V."""
    problem = Problem.make(tanks.MODEL, tanks.PRIORS, tanks.NOISE, [tanks.INITIAL], None)
    solver = ps.Solver(substeps=steps, diffusion=diffusion)
    target = BatchTarget(problem, solver, [tanks.record()], 64, default_executor())
    draws = np.array(target.sample_prior(jax.random.key(0), 2048))
    starts, rng = draws[:, :STARTS].copy(), np.random.default_rng(0)
    for name, limits in (("noise.level", NOISES), ("initial.h1", LEVELS)):  # both in logarithms
        starts[problem.space.names.index(name)] = rng.uniform(*np.log(limits), STARTS)
    mode = find_modes(LogTarget(target, 64), starts, FIRST_WIDTH * draws.std(axis=1))[0]
    return mode, float(problem.space.values(mode.theta[:, None])["noise.level"][0])


def main() -> None:
    print("| steps per sample | " + " | ".join(f"`{name}`" for name in KINDS) + " |")
    print("| --- |" + " --- |" * len(KINDS))
    for steps in STEPS:
        found = [best(kind, steps) for kind in KINDS.values()]
        cells = [f"{mode.log_density:.0f}, noise {noise:.3f} V" for mode, noise in found]
        print(f"| {steps} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
