"""`python -m validation.sampling_verdict`: how often is a run called not to be trusted, good ones and bad ones?

Duffing data sets of the honesty study.  Bad on purpose: too few particles, and moves without the proposal ratio.
"""

import warnings

import probsysid as ps
from probsysid.smc.moves import PAPER
from tests.smc.test_ibis import WithoutProposalRatio
from validation.honesty.problems import PROBLEMS

RUNS = {
    "1024 particles": (60, ps.Sampler(recover=False, particles=1024)),
    "256 particles": (30, ps.Sampler(recover=False, particles=256)),
    "128 particles": (30, ps.Sampler(recover=False, particles=128)),
    "32 particles": (20, ps.Sampler(recover=False, particles=32)),
    "one move per rejuvenation": (20, ps.Sampler(recover=False, particles=256, max_moves=1)),
    "without the proposal ratio": (20, ps.Sampler(recover=False, particles=1024, move=WithoutProposalRatio(PAPER))),
}
"""Number of data sets, and the sampler."""


def untrusted(sampler: ps.Sampler, seed: int) -> bool:
    problem = PROBLEMS["duffing"]
    record = problem.record(seed)
    try:
        posterior = ps.identify(
            problem.model, record, problem.priors, problem.noise, problem.initial, sampler=sampler, seed=seed
        )
    except ps.SamplingError:
        return True
    return posterior.sampling is not None and not posterior.sampling.trusted


def main() -> None:
    warnings.simplefilter("ignore")
    for name, (sets, sampler) in RUNS.items():
        print(f"{name}: {sum(untrusted(sampler, seed) for seed in range(sets))} of {sets} not trusted", flush=True)


if __name__ == "__main__":
    main()
