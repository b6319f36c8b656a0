"""`python -m validation.excitable [SETS]`: an excitable system with few particles, through `identify`.

FitzHugh and Nagumo's equations, irregular samples, a fifth of them missing, 256 particles: of 20 such data sets one
once ended with "the particles of an island are lost".  Populations that lose all particles are refilled
(`smc/pooling.py`); an error is left only where all do.  Writes its part of docs/validation-sampling.md.
"""

import sys
import time
import warnings
from functools import partial
from typing import Any

import numpy as np

import probsysid as ps
from probsysid.posterior.simulate import simulate
from validation.kept import Kept
from validation.sampling_page import EXCITABLE, table, write_part

SAMPLER = ps.Sampler(particles=256)
SAMPLES, LONGEST, MISSING, NOISE = 60, 20.0, 0.2, 0.1
TRUTH = {"a": 0.2, "b": 0.2, "c": 3.0}
START = {"v": -1.0, "r": 1.0}
PRIORS = {"a": ps.dist.LogNormal(-1.5, 1.0), "b": ps.dist.LogNormal(-1.5, 1.0), "c": ps.dist.LogNormal(1.0, 0.7)}
MODEL = ps.Model(
    {"v": 1, "r": 1},
    lambda s, u, p: {"v": p.c * (s.v - s.v**3 / 3 + s.r), "r": -(s.v - p.a + p.b * s.r) / p.c},
    lambda s, u, p: {"v": s.v, "r": s.r},
)
KEPT = Kept("excitable")


def record(seed: int) -> ps.Record:
    """Both components at random times; values are missing at random."""
    random = np.random.default_rng([61, seed])
    when = np.concatenate([[0.0], np.sort(random.uniform(0.0, LONGEST, SAMPLES - 1))])
    empty = ps.Record({}, time=when)
    values = {name: np.array([value]) for name, value in TRUTH.items()}
    clean, _, _ = simulate(MODEL, values, np.array(list(START.values()))[:, None], empty, 32)
    outputs = {}
    for name, value in clean.items():
        noisy = value[0] + NOISE * random.standard_normal(SAMPLES)
        outputs[name] = np.where(random.random(SAMPLES) < MISSING, np.nan, noisy)
    return empty.replace(outputs=outputs)


def run(seed: int) -> dict[str, Any]:
    """One run as plain data."""
    began = time.process_time()
    initial = {name: ps.dist.Normal(value, 0.5) for name, value in START.items()}
    noise = {"v": ps.dist.LogNormal(-2.0, 1.0), "r": ps.dist.LogNormal(-2.0, 1.0)}
    try:
        found = ps.identify(MODEL, record(seed), PRIORS, noise, initial, sampler=SAMPLER, seed=seed)
    except ps.SamplingError as error:
        return {"status": "failed", "words": str(error)}
    return {
        "status": found.sampling.status,
        "words": found.sampling_verdict,
        "refilled": sum(rejuvenation.refilled > 0 for rejuvenation in found.history.rejuvenations),
        "z": [(found.mean(name) - value) / found.sd(name) for name, value in TRUTH.items()],
        "seconds": time.process_time() - began,
    }


TEXT = """
Written by `python -m validation.excitable {sets}`: FitzHugh and Nagumo's equations, 60 irregular samples over six
periods, a fifth missing, seven unknowns, 256 particles; one run per data set. *z*: means minus true values over
standard deviations.

"""


def main(sets: int = 20) -> None:
    warnings.simplefilter("ignore")
    runs = [KEPT.get(str(seed), partial(run, seed)) for seed in range(sets)]
    done = [found for found in runs if found["status"] != "failed"]
    squares = np.square([found["z"] for found in done if found["status"] == "trusted"])
    row = {
        "data sets": sets,
        "ended with an error": sets - len(done),
        "not trusted": sum(found["status"] != "trusted" for found in done),
        "with a population refilled": sum(found["refilled"] > 0 for found in done),
        "rms z": f"{np.sqrt(np.mean(squares)):.2f}",
        "CPU s, median": f"{np.median([found['seconds'] for found in done]):.1f}",
    }
    print(row, *[found["words"] for found in runs if found["status"] != "trusted"], sep="\n", flush=True)
    write_part(EXCITABLE, TEXT.format(sets=sets) + table([row]))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
