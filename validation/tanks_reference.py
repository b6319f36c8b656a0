"""`python -m validation.tanks_reference [SEED ...]`: the cascaded tanks' posterior by many importance draws.

The reference draws come from 2000 Metropolis chains of 1600 steps each, which do not fill the ridge of k1, l1 and d.
Here a default run is refined with 32768 draws, twice, each weighted by the target: their effective number, means and
standard deviations against the reference, and the log evidence.
"""

import sys
import warnings

import probsysid as ps
from validation import tanks
from validation.tanks_study import LIMITED, METROPOLIS

DRAWS = 32_768


def main(seeds: list[int]) -> None:
    warnings.simplefilter("ignore")
    for seed in seeds or [1, 2]:
        run = ps.identify(
            tanks.MODEL, tanks.record(), tanks.PRIORS, tanks.NOISE, tanks.INITIAL, seed=seed, sampler=LIMITED
        )
        for of_draws in (10, 11):
            found = run.refined(DRAWS, seed=of_draws)
            print(f"run {seed}, draws {of_draws}: {found.ess:.0f} effective of {DRAWS}, log evidence ", end="")
            print(f"{found.log_evidence:.3f} +- {found.log_evidence_error:.3f}")
            for name, (mean, sd) in METROPOLIS.items():
                print(f"  {name}: mean {(found.mean(name) - mean) / sd:+.3f} sd, sd ratio {found.sd(name) / sd:.3f}")


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]])
