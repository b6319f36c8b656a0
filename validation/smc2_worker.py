"""SMC^2 of the library particles on one record, in its own environment; one line of JSON for the study of smc2.py.

`python validation/smc2_worker.py MODEL SEEDS PARTICLES POINTS` reads the record from standard input.  The first run
compiles what numba compiles and is left out of the times.
"""

import json
import sys
import time
from collections import OrderedDict

import numpy as np
import particles
from particles import distributions as dists
from particles import smc_samplers as ssp
from particles import state_space_models as ssm


def factor(k):
    """What a Runge-Kutta step of length one does to x' = -k x: the model is then the same as ours."""
    return 1 - k + k**2 / 2 - k**3 / 6 + k**4 / 24


class Volatility(ssm.StateSpaceModel):
    def PX0(self):
        return dists.Dirac(loc=np.zeros(1))

    def PX(self, t, xp):
        return dists.Normal(loc=self.mu + factor(self.k) * (xp - self.mu), scale=self.s)

    def PY(self, t, xp, x):
        return dists.Normal(loc=0.0, scale=np.exp(0.5 * x))


class Counts(Volatility):
    def PY(self, t, xp, x):
        return dists.Poisson(rate=np.exp(x))


MODELS = {"volatility": Volatility, "counts": Counts}
PRIOR = dists.StructDist(
    OrderedDict(k=dists.LogNormal(-1.5, 0.5), mu=dists.Normal(0.0, 1.0), s=dists.LogNormal(-1.0, 0.5))
)


def run(name, data, count, points, seed):
    np.random.seed(seed)  # noqa: NPY002, the library draws from the global generator
    wall, began = time.perf_counter(), time.process_time()
    target = ssp.SMC2(ssm_cls=MODELS[name], prior=PRIOR, data=data, init_Nx=points, wastefree=False, len_chain=3)
    sampler = particles.SMC(fk=target, N=count)
    sampler.run()
    theta = sampler.X.theta
    logs = np.stack([np.log(theta["k"]), theta["mu"], np.log(theta["s"])])
    mean = logs @ sampler.W
    sd = np.sqrt((logs - mean[:, None]) ** 2 @ sampler.W)
    return {
        "mean": mean.tolist(),
        "sd": sd.tolist(),
        "evidence": float(sampler.logLt),
        "points": int(sampler.X.Nxs[-1]) if hasattr(sampler.X, "Nxs") else int(sampler.X.pfs[0].N),
        "seconds": time.process_time() - began,
        "wall": time.perf_counter() - wall,
    }


if __name__ == "__main__":
    model, seeds, count, points = sys.argv[1], *map(int, sys.argv[2:5])
    outputs = np.array(json.load(sys.stdin))
    run(model, outputs[:10], 20, 10, 0)
    for seed in range(seeds):
        print(json.dumps(run(model, outputs, count, points, seed)), flush=True)
