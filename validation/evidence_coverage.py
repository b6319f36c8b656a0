"""`python -m validation.evidence_coverage [SEEDS]`: how often is the log evidence within its reported error?

Conjugate problems with a closed form, and the hard posteriors; writes its part of the page.
"""

import sys
import warnings
from collections.abc import Sequence
from functools import partial

import numpy as np
from scipy import stats

from probsysid import Sampler
from probsysid._internal.statistics import log_mean_exp
from probsysid.inference.confirm import confirm
from probsysid.smc import ibis
from probsysid.smc.budget import Budget
from tests.smc.conjugate import Coin, EnergyTarget, Rate, Regression
from validation.kept import Kept
from validation.sampling_hard import values
from validation.sampling_page import COVERAGE, table, write_part
from validation.sampling_targets import banana, correlated_gaussian, four_modes, frequency, funnel

KEPT = Kept("coverage")

HARD = (four_modes, banana, funnel, frequency, correlated_gaussian)
MORE = 2
"""Times as many further seeds for the frequency: the first 60 had errors a third larger than reported."""
CONJUGATE = {
    "linear regression": Regression.simulated(),
    "linear regression, a sharp sample": Regression.simulated(sharp=12),
    "rate": Rate.simulated(),
    "coin": Coin.simulated(),
}

TEXT = """
Written by `python -m validation.evidence_coverage {seeds}`: {seeds} seeds of the default sampler on each target. The
reported standard error rests on the differences of 8 populations, so that errors in units of it are Student-t with 7
degrees of freedom where it is right: {one:.0%} within one, {two:.0%} within two, {three:.0%} within three; shares of
{seeds} runs have a standard error of up to {chance:.0%}. The frequency has a second row, of further
seeds: its first {seeds} had errors a third larger than reported, which these say was mostly chance.

"""
HEAD = ["target", "runs", "rms error", "rms reported", "within one", "within two", "within three"]


def errors(target: EnergyTarget, log_evidence: float, seed: int) -> tuple[float, float]:
    """Of the log evidence: true and reported."""
    sampler = Sampler()
    run = ibis.start(target, sampler, seed)
    while run.samples < target.samples:
        run, _ = ibis.step(run, target, sampler)
    run, check, _ = confirm(run, target, sampler, values, seed, Budget(np.inf))
    return float(log_mean_exp(run.evidence_by_population)) - log_evidence, check.evidence_error


def row(name: str, target: EnergyTarget, log_evidence: float, seeds: Sequence[int]) -> dict[str, str]:
    found = [KEPT.get(f"{name}, {seed}", partial(errors, target, log_evidence, seed)) for seed in seeds]
    true, reported = np.array(found).T
    ratio = np.abs(true / reported)
    sizes = [f"{np.sqrt(np.mean(found**2)):.3f}" for found in (true, reported)]
    shares = [f"{np.mean(ratio < limit):.0%}" for limit in (1, 2, 3)]
    return dict(zip(HEAD, [name, str(len(seeds)), *sizes, *shares], strict=True))


def main(seeds: int = 60) -> None:
    warnings.simplefilter("ignore")
    rows = []
    for name, problem in CONJUGATE.items():
        rows.append(row(name, problem.target(), float(problem.exact.log_evidence[-1]), range(seeds)))
        print(rows[-1], flush=True)
    for make in HARD:
        hard = make()
        parts = [range(seeds)] + [range(seeds, (1 + MORE) * seeds)] * (make is frequency)
        rows += [row(hard.name, hard.target, hard.log_evidence, part) for part in parts]
        print(rows[-1], flush=True)
    within = [2 * stats.t(7).cdf(limit) - 1 for limit in (1, 2, 3)]
    text = TEXT.format(seeds=seeds, one=within[0], two=within[1], three=within[2], chance=0.5 / np.sqrt(seeds))
    write_part(COVERAGE, text + table(rows))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
