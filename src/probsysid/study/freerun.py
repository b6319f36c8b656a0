"""Free runs of the posterior over training and test ranges, and their scores."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from probsysid.posterior.initial_states import Initial
from probsysid.posterior.posterior import Posterior
from probsysid.posterior.predict import Band, bands
from probsysid.posterior.simulate import Simulation
from probsysid.posterior.states import States
from probsysid.posterior.unknown_inputs import UnknownInputs
from probsysid.study.records import StudyRecord

MOST_NUMBERS = 20_000_000
"""Simulated values kept in memory: draws times samples."""

LEVEL = 0.9
"""Probability of the bands of predicted measurements."""

STATE_SAMPLES = 20_000
STATE_DRAWS, INPUT_DRAWS = 20, 100
"""Smoothing keeps one matrix per sample and draw: of long records only the first samples are smoothed."""


@dataclass(frozen=True, eq=False)
class FreeRun:
    """A simulation over a part of a record, with its training and test ranges."""

    measured: StudyRecord
    simulation: Simulation
    """Without process noise."""
    bands: dict[str, Band]
    """Predicted measurements of each output, process noise included."""
    train: slice | None
    test: slice | None
    failed: int
    """Number of draws whose simulation was not finite; they are excluded."""

    @property
    def start(self) -> str:
        """Origin of the initial state."""
        return self.simulation.start

    def part(self, which: str) -> Simulation | None:
        """The simulation over one of the ranges, "train" or "test"."""
        cut = self.train if which == "train" else self.test
        if cut is None:
            return None
        used = max(self.simulation.skip - cut.start, 0)
        skip = max(self.measured.skip, used) if which == "test" else 0
        whole = self.simulation
        outputs = {name: values[:, cut] for name, values in whole.outputs.items()}
        return replace(whole, record=whole.record[cut], outputs=outputs, skip=skip)

    def scores(self) -> dict[str, dict[str, dict[str, float]]]:
        """Range -> output -> scores, for outputs with measured values."""
        found: dict[str, dict[str, dict[str, float]]] = {}
        for which in ("train", "test"):
            part = self.part(which)
            for name in part.scored if part is not None else ():
                assert part is not None
                if np.any(np.isfinite(part.record.outputs[name][part.skip :])) and self.finite and self.bands:
                    rmse, fit, band = part.rmse(name), part.fit(name), self._band(which, name)
                    measured = np.asarray(part.record.outputs[name])
                    found.setdefault(which, {})[name] = {
                        "rmse": rmse.mean,
                        "rmse_min": rmse.min,
                        "rmse_max": rmse.max,
                        "fit_percent": fit.mean,
                        "coverage": band.coverage(measured, part.skip),
                        "standardised_rms": band.standardised_rms(measured, part.skip),
                    }
        return found

    def _band(self, which: str, output: str) -> Band:
        cut, whole = self.train if which == "train" else self.test, self.bands[output]
        return Band(whole.mean[cut], whole.sd[cut], whole.low[cut], whole.high[cut])

    @property
    def finite(self) -> bool:
        """Whether any draw could be simulated."""
        return len(self.simulation.weights) > 0


def smoothed(posterior: Posterior, index: int) -> States:
    """Smoothed states of a training record, or of its first part if it is very long."""
    records = tuple(r[: min(r.samples, STATE_SAMPLES)] for r in posterior.records)
    return replace(posterior, records=records).states(index, draws=STATE_DRAWS)


def smoothed_inputs(posterior: Posterior, index: int) -> UnknownInputs:
    """Unknown inputs and drifts on a training record, or on its first part."""
    records = tuple(r[: min(r.samples, STATE_SAMPLES)] for r in posterior.records)
    return replace(posterior, records=records).inputs(index, draws=INPUT_DRAWS)


def free_runs(posterior: Posterior, records: tuple[StudyRecord, ...], draws: int) -> list[FreeRun]:
    """One simulation per record, or two if the test range lies before the training range."""
    runs, index = [], -1
    for item in records:
        train, test = item.train, item.test
        if train is None:
            runs.append(_run(posterior, item, None, test, 0, draws))
            continue
        index += 1
        if test is not None and test.start < train.start:
            runs.append(_run(posterior, item, train, None, index, draws))
            runs.append(_run(posterior, item, None, test, index, draws))
        else:
            runs.append(_run(posterior, item, train, test, index, draws))
    return runs


def _run(
    posterior: Posterior, item: StudyRecord, train: slice | None, test: slice | None, index: int, draws: int
) -> FreeRun:
    """Simulate from the first sample of the ranges to the last.

    A training range starts from each draw's own initial state; a test range that does not follow one starts from the
    state that the study gives for it, or that is estimated from its first samples.  What varies between records has its
    value on the record that was trained on, and a new one on any other.
    """
    ranges = [part for part in (train, test) if part is not None]
    first = min(part.start for part in ranges)
    record = item.record[first : max(part.stop for part in ranges)]
    count = max(2, min(draws, MOST_NUMBERS // record.samples))
    initial: Initial = None if train is not None else _given_start(posterior, item, index) or "estimate"
    experiment = None if item.train is None else index
    run = partial(posterior.simulate, record, initial=initial, experiment=experiment, particles=count)
    simulation = run(process_noise=False)
    simulation = disturbed = _finite(simulation)
    if posterior.setup.problem.disturbed:
        disturbed = _finite(run())
    left = len(simulation.weights)
    found = dict(bands(posterior, disturbed, LEVEL)) if len(disturbed.weights) else {}
    return FreeRun(item, simulation, found, _shift(train, first), _shift(test, first), count - left)


def _finite(simulation: Simulation) -> Simulation:
    """Without the draws that blew up."""
    finite = np.all([np.all(np.isfinite(v), axis=1) for v in simulation.outputs.values()], axis=0)
    kept, left = {name: values[finite] for name, values in simulation.outputs.items()}, int(finite.sum())
    weights = np.full(left, 1 / max(left, 1))
    return replace(simulation, outputs=kept, weights=weights, chosen=simulation.chosen[finite])


def _given_start(posterior: Posterior, item: StudyRecord, index: int) -> dict[str, Any]:
    """The initial state that the study gives for a test record; what it leaves out is as on the training record."""
    problem = posterior.setup.problem
    own = {name: value for name, value in item.section.initial.items() if name in problem.model.physical_names}
    if not own:
        return {}
    return {**problem.initials[index], **{name: getattr(value, "distribution", value) for name, value in own.items()}}


def _shift(part: slice | None, first: int) -> slice | None:
    return None if part is None else slice(part.start - first, part.stop - first)
