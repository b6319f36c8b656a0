"""How well a hysteretic system is integrated: errors and z-scores by diffusion and steps per sample.

    python -m validation.kinks

The Bouc-Wen oscillator of the honesty study at its true constants, without data: root mean square error of the
acceleration over a record, against a finely stepped Runge-Kutta solution, and the same by the filter's own standard
deviation.  Once as it is, with some 15 samples between reversals of the velocity, and once sampled eight times as fast
with a force up to 30 Hz, so that no window of the diffusion reaches from one reversal to the next.
"""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np

import probsysid as ps
from probsysid.model.particle import Particle
from probsysid.odefilter.arrays.step import as_array_filter
from probsysid.odefilter.diffusion import Diffusion
from probsysid.odefilter.filter_inputs import prepare
from probsysid.odefilter.smoothing.trajectory import trace
from probsysid.posterior.simulate import simulate
from validation.honesty.problems import HonestyProblem, bouc_wen_coarse, multisine

RARE = replace(bouc_wen_coarse, dt=1 / 8192, samples=4096, force=multisine(0.5, 30.0, 60.0))
CASES = (("frequent", bouc_wen_coarse, (2, 4, 8, 16), 256), ("rare", RARE, (1, 2, 4), 64))
"""Reversals, problem, steps per sample, and those of the exact solution."""

KINDS: dict[str, Diffusion] = {
    "QuasiMLE()": ps.QuasiMLE(),
    "Dynamic(2)": ps.Dynamic(2.0),
    "Dynamic(2, floor=0.1)": ps.Dynamic(2.0, floor=0.1),
    "Dynamic(2, floor=0.1, coupled=True)": ps.Dynamic(2.0, floor=0.1, coupled=True),
}


def scores(problem: HonestyProblem, diffusion: Diffusion, steps: int, fine: int) -> tuple[float, float]:
    """Root mean square error, and root mean square z-score."""
    noise = 1.0
    values = {name: np.array([value]) for name, value in problem.truth(0).items()}
    start = np.array(problem.start)[:, None]
    record = problem.record(0)
    outputs, _, _ = simulate(problem.model, values, start, record, fine)
    record = record.replace(outputs={name: y[0] for name, y in outputs.items()})
    solver = ps.Solver(diffusion=diffusion, conditioning="solver", substeps=steps, linearisation=ps.EKF1())
    ode_filter = as_array_filter(solver.ode_filter(problem.model, record.jump_order))
    particle = Particle(
        parameters={name: jnp.asarray(value) for name, value in values.items()},
        noise=[jnp.array([noise])],
        initial_mean=[jnp.asarray(value) for value in start],
        initial_sd=[jnp.zeros(1) for _ in start],
    )
    path = trace(ode_filter, particle, prepare(record, ode_filter, steps), record.time)
    errors, variances = path.innovation[1:, 0, 0], path.innovation_variance[1:, 0, 0] - noise**2
    return float(np.sqrt(np.mean(errors**2))), float(np.sqrt(np.mean(errors**2 / np.maximum(variances, 1e-12))))


def main() -> None:
    print("| reversals | steps per sample | " + " | ".join(f"`{name}`" for name in KINDS) + " |")
    print("| --- | --- |" + " --- |" * len(KINDS))
    for name, problem, ladder, fine in CASES:
        for steps in ladder:
            cells = ["{:.2g} m/s2, z {:.2g}".format(*scores(problem, kind, steps, fine)) for kind in KINDS.values()]
            print(f"| {name} | {steps} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
