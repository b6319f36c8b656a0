"""Three verdicts, each with its light."""

from dataclasses import replace

import numpy as np

from probsysid.posterior.diagnostics.sampling_check import check_populations
from probsysid.posterior.diagnostics.solver_check import SolverCheck
from probsysid.posterior.diagnostics.traffic_lights import traffic_lights
from tests.posterior.tiny import tiny_posterior

GOOD = SolverCheck(substeps=2, finer=4, shape=0.1, shift={"a": 0.01}, spread={"a": 1.0})


def lights(**changes: object) -> list[str]:
    return [verdict.light for verdict in traffic_lights(replace(tiny_posterior(), **changes))]


def test_what_was_not_checked_has_no_colour() -> None:
    assert lights(doubts=(), errors=()) == ["unknown"] * 3


def test_checks_decide_on_the_colour() -> None:
    random = np.random.default_rng(0)
    agreeing = check_populations({"a": random.standard_normal((8, 512))}, np.zeros((8, 512)), np.zeros(8))
    apart = check_populations(
        {"a": 9 * np.arange(8)[:, None] + random.random((8, 512))}, np.zeros((8, 512)), np.zeros(8)
    )
    assert lights(check=GOOD, sampling=agreeing, doubts=()) == ["good"] * 3
    assert lights(check=replace(GOOD, shift={"a": 9.0}), sampling=apart) == ["bad", "bad", "doubtful"]


def test_sentences_have_one_full_stop() -> None:
    for verdict in traffic_lights(replace(tiny_posterior(), check=GOOD)):
        assert verdict.sentence.endswith(".") and not verdict.sentence.endswith("..")
