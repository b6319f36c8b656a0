"""`python -m validation.identifiability`: how often is a formula stated that there is not, and how often one missed?

Exact posteriors of linear problems in logarithms with 256 weighted particles, and Duffing runs, whose constants are all
identified by 100 samples.
"""

import warnings

import numpy as np

import probsysid as ps
from probsysid.posterior.diagnostics.combinations import Beliefs, find_combinations
from tests import duffing

SETS, RUNS, SAMPLES, PARTICLES, PRIOR_DRAWS = 1000, 15, 100, 256, 4000


def beliefs(information: np.ndarray, random: np.random.Generator) -> Beliefs:
    """The posterior for a standard normal prior of logarithms and this information from the data."""
    count = len(information)
    root = np.linalg.cholesky(np.linalg.inv(information + np.eye(count)))
    names = [f"p{i}" for i in range(count)]
    weights = random.exponential(size=PARTICLES)
    values = np.exp(root @ random.standard_normal((count, PARTICLES)))
    prior = np.exp(random.standard_normal((count, PRIOR_DRAWS)))
    return Beliefs.of(
        dict(zip(names, values, strict=True)), weights / weights.sum(), dict(zip(names, prior, strict=True))
    )


def stated(kind: str, seed: int) -> bool:
    """Whether there is a formula, and the right one if there is one to find."""
    random = np.random.default_rng(seed)
    count = int(random.integers(2, 9))
    axes = np.linalg.qr(random.standard_normal((count, count)))[0]
    if kind == "identified":
        sds = 10 ** random.uniform(-4, -1, count)
        return bool(find_combinations(beliefs((axes / sds**2) @ axes.T, random)))
    if kind == "ridges of any exponents":
        factors = random.standard_normal((count, count)) * np.exp(random.standard_normal(count))
        return bool(find_combinations(beliefs(factors @ factors.T * 10 ** random.uniform(0, 4), random)))
    row = np.zeros(count)
    row[:2] = 1.0, random.choice([-2.0, -1.0, 1.0, 2.0])
    others = np.diag(np.r_[0.0, 0.0, np.full(count - 2, 1e4)])
    found = find_combinations(beliefs(np.outer(row, row) / 0.01**2 + others, random))
    return [item.members for item in found] == [("p0", "p1")] and abs(found[0].exponents[1]) == abs(row[1])


def main() -> None:
    warnings.simplefilter("ignore")
    for kind in ("identified", "ridges of any exponents", "one product of two, known to 1 %"):
        print(f"{kind}: {sum(stated(kind, seed) for seed in range(SETS))} of {SETS} have a formula", flush=True)
    flagged = formulas = 0
    for seed in range(RUNS):
        sampler = ps.Sampler(particles=PARTICLES)
        found = ps.identify(duffing.model, duffing.measure(SAMPLES, seed=seed), **duffing.options(sampler=sampler))
        flagged += any(found.identifiability.flags.values())
        formulas += bool(found.identifiability.combinations)
    print(f"Duffing, {SAMPLES} samples: {formulas} of {RUNS} have a formula, {flagged} a flag")


if __name__ == "__main__":
    main()
