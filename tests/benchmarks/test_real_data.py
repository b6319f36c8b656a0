"""Reduced runs on the published files, if they are present."""

import os
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import probsysid as ps
from probsysid.benchmarks import bouc_wen, emps, pendulum, silverbox, tanks
from probsysid.benchmarks.case import CaseStudy, ScoringProtocol
from probsysid.benchmarks.emps_controller import closed_loop, voltage
from probsysid.benchmarks.laplace_limit import limits
from probsysid.benchmarks.run import run

pytestmark = pytest.mark.skipif(not os.environ.get("PROBSYSID_DATA"), reason="PROBSYSID_DATA names no folder with data")


def score(protocol: ScoringProtocol, values: dict[str, float]) -> float:
    return protocol.rmse({name: np.array([v]) for name, v in values.items()}, np.ones(1)).mean


def protocol(study: CaseStudy, name: str) -> ScoringProtocol:
    return next(p for p in study.protocols if p.name == name)


def shortened(study: CaseStudy, samples: int, tests: tuple[str, ...]) -> CaseStudy:
    method = replace(study.methods["default"], sampler=ps.Sampler(particles=128, islands=2, max_moves=6))
    return replace(
        study,
        record=study.record[:samples],
        methods={"default": method},
        protocols=tuple(p for p in study.protocols if p.name in tests),
        fits={},
    )


def test_true_parameters_reproduce_the_bouc_wen_files() -> None:
    study = bouc_wen.study()
    # The files were integrated by Newmark's method: this is its error and ours, as documented at TEST_STEPS; within
    # half a unit of the last digit.
    assert score(protocol(study, "multisine"), bouc_wen.TRUTH) == pytest.approx(0.252e-6, abs=0.0005e-6)
    assert score(protocol(study, "sinesweep"), bouc_wen.TRUTH) == pytest.approx(2.56e-6, abs=0.005e-6)


def test_published_parameters_reproduce_the_emps_files() -> None:
    study = emps.study()
    # measured values, half a unit of the last digit; the controller keeps the closed loop a hundred times closer
    assert score(protocol(study, "closed_loop"), emps.JANOT) < 5e-6
    assert score(protocol(study, "baseline"), emps.JANOT) == pytest.approx(0.586e-3, abs=0.0005e-3)
    assert score(protocol(study, "open_loop"), emps.JANOT) == pytest.approx(8.4e-3, abs=0.05e-3)


def test_the_controller_is_the_one_of_the_training_record() -> None:
    """Its voltages from reference and position, against those of the file; a difference over one sample instead of two
    would leave 0.05 V."""
    channels, drive = emps.measurements(emps.TRAIN_FILE)
    position, reference = channels["qm"], channels["qg"]
    found = voltage(drive, emps.DT, reference[2:], position[2:], position[:-2])
    # measured 0.0037 V, half a unit of the last digit; the first 100 samples start from rest
    error = np.asarray(found)[100:] - channels["vir"][102:]
    assert np.sqrt(np.mean(error**2)) == pytest.approx(0.0037, abs=0.00005)


def test_a_simulated_loop_follows_the_training_record() -> None:
    """Closed over its own two positions before: the error is half of that with a velocity that is known at once."""
    channels, drive = emps.measurements(emps.TRAIN_FILE)
    record = emps.reference_record(emps.TRAIN_FILE)[:3000]
    begin = emps.start(emps.force_record(emps.TRAIN_FILE))
    predict = closed_loop(emps.model("friction"), drive, record, emps.STEPS, begin)
    position = predict({name: np.array([value]) for name, value in emps.JANOT.items()})[0]
    assert np.sqrt(np.mean((position - channels["qm"][:3000]) ** 2)) < 2e-6  # 3.4e-6 with the velocity itself


def test_the_authors_constants_reproduce_the_swings_of_the_pendulum() -> None:
    study = pendulum.study(variant="viscous")
    # 5.9 and 8.4 mrad from the first row of each validation piece; half a unit of the last digit
    assert score(protocol(study, "validation_phi1"), pendulum.AUTHORS) == pytest.approx(5.9e-3, abs=0.05e-3)
    assert score(protocol(study, "validation_phi2"), pendulum.AUTHORS) == pytest.approx(8.4e-3, abs=0.05e-3)
    assert study.record.samples == -(-26 * 2667 // pendulum.EVERY)


def test_least_squares_constants_reproduce_the_tanks() -> None:
    """Posterior means under output error leave 0.196 V on the training record, their noise level."""
    found = {"k1": 0.0788, "k2": 0.0658, "k3": 0.112, "k4": 0.0317, "ko": 0.295, "k5": 0.995}
    found |= {"l1": -0.00781, "l2": -0.0143, "d": 0.0693, "noise.level": 0.196}
    assert score(protocol(tanks.study(None, "overflow"), "validation"), found) == pytest.approx(0.25, abs=0.015)


@pytest.mark.parametrize(
    ("variant", "expected"),
    [
        pytest.param("duffing", 0.881e-3, marks=pytest.mark.long),
        pytest.param("duffing-offset", 0.469e-3, marks=pytest.mark.long),
        ("duffing-offset-quadratic", 0.394e-3),
    ],
)
def test_the_silverbox_limits_are_the_known_ones(variant: str, expected: float) -> None:
    study = silverbox.study(variant=variant)
    arrow = replace(study, protocols=(protocol(study, "arrow"),))
    found = limits(arrow)["arrow"]
    # four standard errors of the mean over draws, 1.1 to 1.6e-6 V
    error = 4 * np.std(found.values) / np.sqrt(len(found.values))
    assert found.mean == pytest.approx(expected, abs=error)


def test_the_parts_of_the_silverbox_record() -> None:
    study = silverbox.study()
    assert study.record.samples == 3072
    whole = silverbox.whole_record()
    assert study.record.outputs["position"][0] == whole.outputs["position"][49277]
    assert len(protocol(study, "arrow").measured) == 39001
    assert len(protocol(study, "arrow_full").measured) == 40475 - 50
    assert len(protocol(study, "arrow_no_extrapolation").measured) == 32000 - 50
    assert len(protocol(study, "multisine").measured) == 21688 - 50


@pytest.mark.long
@pytest.mark.parametrize(
    ("make", "samples", "tests", "measured"),
    [
        (bouc_wen.study, 600, ("multisine",), 89e-6),
        (lambda: silverbox.study(variant="duffing-offset"), 500, ("arrow",), 0.52e-3),
        (emps.study, 600, ("closed_loop", "baseline"), 14e-6),
    ],
    ids=["bouc-wen", "silverbox", "emps"],
)
def test_a_reduced_run(make: Callable[[], CaseStudy], samples: int, tests: tuple[str, ...], measured: float) -> None:
    result = run(shortened(make(), samples, tests)).result
    assert set(result.test) == set(tests)
    score = result.test[tests[0]]
    # Short records leave the parameters uncertain.  Another rounding gives other particles, whose mean error differs by
    # the Monte Carlo error of 64 effective particles, some per cent: twice the measured error is out of its reach.
    assert score.rmse_mean < 2 * measured < score.baseline
    assert result.particles == 128
