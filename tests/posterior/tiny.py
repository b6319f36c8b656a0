"""A posterior made by hand: nothing is sampled, nothing compiled."""

from dataclasses import replace

import numpy as np

import probsysid as ps
from probsysid import dist
from probsysid.model.problem import Problem
from probsysid.posterior.settings import RunSettings, Setup
from probsysid.smc.history import History
from probsysid.smc.rejuvenate import Rejuvenation

PARTICLES = 8


def tiny_posterior() -> ps.Posterior:
    """Eight weighted particles of two quantities, with everything a run would have left but its model."""
    random = np.random.default_rng(0)
    theta = random.standard_normal((2, PARTICLES))
    history = History(2, [random.uniform(2, 4, (5, 2))], [random.standard_normal((5, 2))])
    history.rejuvenations.append(Rejuvenation(*[1] * len(Rejuvenation._fields)))
    settings = RunSettings(
        version=ps.__version__,
        created="2026-01-01T00:00:00",
        model="lag",
        particles=PARTICLES,
        samples=5,
        sweeps=3.0,
        lost=0,
        solver="Solver()",
        sampler="Sampler()",
        seed=0,
        islands=2,
        ess_threshold=0.5,
        seconds=1.0,
        priors={"a": "LogNormal(loc=0, scale=1)", "b": "Normal(loc=0, scale=1)"},
        units={"a": "1/s"},
        substeps=1,
        steps_chosen=True,
    )
    return ps.Posterior(
        values={"a": np.exp(theta[0]), "b": theta[1]},
        theta=theta,
        weights=np.full(PARTICLES, 1 / PARTICLES),
        evidence_by_population=np.array([-3.0, -3.5]),
        history=history,
        settings=settings,
        errors=(random.standard_normal((5, 1)),),
        doubts=("the residuals are not white.",),
    )


MODEL = ps.Model({"h": 1}, lambda s, u, p: {"h": p.a * (p.b * u.u - s.h)}, lambda s, u, p: {"level": s.h}, name="lag")
RECORD = ps.Record({"u": np.ones(5)}, {"level": np.linspace(0, 1, 5)}, dt=0.1, name="steps")
PRIORS = {"a": dist.LogNormal(0, 1), "b": dist.Normal(0, 1)}


def tiny_with_model() -> ps.Posterior:
    """The same with its model, its priors and its record."""
    problem = Problem.make(MODEL, PRIORS, {"level": 0.1}, [{"h": 0.0}], None)
    return replace(tiny_posterior(), setup=Setup((problem, ps.Solver(substeps=1))), records=(RECORD,))
