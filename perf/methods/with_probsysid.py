"""probsysid with its defaults: solver and sampler, several runs in one process.  The first of them compiles, or reads
programs cached by an earlier process.  With --draws, every run ends with `Posterior.refined`."""

import os

import numpy as np
from duffing import DT, NAMES, POSITIVE, PRIOR_MEAN, PRIOR_SD, record
from hand_over import Clock, hand_over, options

import probsysid as ps
from probsysid import dist

MODEL = ps.Model(
    coordinates={"x": 2},
    dynamics=lambda s, u, p: {"x": (u.force - p.c * s.dx - p.k * s.x - p.k3 * s.x**3) / p.m},
    outputs=lambda s, u, p: {"position": s.x},
    name="Duffing oscillator",
)
PRIORS = {
    name: (dist.LogNormal if i < POSITIVE else dist.Normal)(PRIOR_MEAN[i], PRIOR_SD[i]) for i, name in enumerate(NAMES)
}


def under(prefix: str) -> dict:
    return {name.removeprefix(prefix): prior for name, prior in PRIORS.items() if name.startswith(prefix)}


def main() -> None:
    given = options(particles=1024, runs=8, seed=0, islands=4, draws=0)
    force, position = record(given.samples)
    data = ps.Record(inputs={"force": force}, outputs={"position": position}, dt=DT, intersample="linear")
    parameters = {name: prior for name, prior in PRIORS.items() if "." not in name}
    clock, posteriors = Clock(), []
    sampler = ps.Sampler(particles=given.particles, islands=given.islands)
    for run in range(given.runs):
        with clock.phase("run" if run else "first"):
            posterior = ps.identify(
                MODEL,
                data,
                parameters,
                under("noise."),
                under("initial."),
                sampler=sampler,
                seed=given.seed + run,
            )
            posteriors.append(posterior.refined(given.draws, seed=given.seed + run) if given.draws else posterior)
    hand_over(
        given.out,
        clock,
        np.array([[p.columns[name] for name in NAMES] for p in posteriors]),
        ("probsysid", "jax"),
        weights=np.array([p.weights for p in posteriors]),
        log_evidence=[p.log_evidence for p in posteriors],
        kind="smc",
        balanced=given.draws > 0,
        log_evidence_error=[p.log_evidence_error for p in posteriors],
        sweeps=float(np.mean([p.settings.sweeps for p in posteriors])),
        solver=posteriors[-1].settings.solver,
        verdict=posteriors[-1].verdict,
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
    )


if __name__ == "__main__":
    main()
