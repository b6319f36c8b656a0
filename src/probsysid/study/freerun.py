"""Free runs of the posterior over training and test ranges, and their scores."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from probsysid.model.initial_state import gaussian_moments
from probsysid.posterior.posterior import Posterior
from probsysid.posterior.simulate import Simulation
from probsysid.posterior.states import States
from probsysid.study.records import StudyRecord

MOST_NUMBERS = 20_000_000
"""Simulated values kept in memory: draws times samples."""

STATE_SAMPLES = 20_000
STATE_DRAWS = 20
"""Smoothing keeps one matrix per sample and draw: of long records only the first samples are smoothed."""


@dataclass(frozen=True, eq=False)
class FreeRun:
    """A simulation over a part of a record, with its training and test ranges."""

    measured: StudyRecord
    simulation: Simulation
    train: slice | None
    test: slice | None
    failed: int
    """Number of draws whose simulation was not finite; they are excluded."""
    start: str
    """Origin of the initial state."""

    def part(self, which: str) -> Simulation | None:
        """The simulation over one of the ranges, "train" or "test"."""
        cut = self.train if which == "train" else self.test
        if cut is None:
            return None
        skip = self.measured.skip if which == "test" else 0
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
                if np.any(np.isfinite(part.record.outputs[name][part.skip :])) and self.finite:
                    rmse, fit = part.rmse(name), part.fit(name)
                    found.setdefault(which, {})[name] = {
                        "rmse": rmse.mean,
                        "rmse_min": rmse.min,
                        "rmse_max": rmse.max,
                        "fit_percent": fit.mean,
                    }
        return found

    @property
    def finite(self) -> bool:
        """Whether any draw could be simulated."""
        return len(self.simulation.weights) > 0


def smoothed(posterior: Posterior, index: int) -> States:
    """Smoothed states of a training record, or of its first part if it is very long."""
    records = tuple(r[: min(r.samples, STATE_SAMPLES)] for r in posterior.records)
    return replace(posterior, records=records).states(index, draws=STATE_DRAWS)


def free_runs(
    posterior: Posterior, records: tuple[StudyRecord, ...], states: dict[int, States], draws: int
) -> list[FreeRun]:
    """One simulation per record, or two if the test range lies before the training range."""
    runs, index = [], -1
    for item in records:
        train, test = item.train, item.test
        if train is None:
            runs.append(_run(posterior, item, None, test, None, 0, draws))
            continue
        index += 1
        if test is not None and test.start < train.start:
            runs.append(_run(posterior, item, train, None, states.get(index), index, draws))
            runs.append(_run(posterior, item, None, test, None, index, draws))
        else:
            runs.append(_run(posterior, item, train, test, states.get(index), index, draws))
    return runs


def _run(
    posterior: Posterior,
    item: StudyRecord,
    train: slice | None,
    test: slice | None,
    states: States | None,
    index: int,
    draws: int,
) -> FreeRun:
    """Simulate from the first sample of the ranges to the last, with the initial state of training record `index`."""
    ranges = [part for part in (train, test) if part is not None]
    first = min(part.start for part in ranges)
    record = item.record[first : max(part.stop for part in ranges)]
    count = max(2, min(draws, MOST_NUMBERS // record.samples))
    initial, start = _initial(posterior, item, states, index, testing=train is None)
    simulation = posterior.simulate(record, initial=initial, particles=count)
    finite = np.all([np.all(np.isfinite(v), axis=1) for v in simulation.outputs.values()], axis=0)
    kept = {name: values[finite] for name, values in simulation.outputs.items()}
    left = int(finite.sum())
    simulation = replace(simulation, outputs=kept, weights=np.full(left, 1 / max(left, 1)))
    return FreeRun(item, simulation, _shift(train, first), _shift(test, first), count - left, start)


def _initial(
    posterior: Posterior, item: StudyRecord, states: States | None, index: int, *, testing: bool
) -> tuple[dict[str, float], str]:
    """The smoothed state if there is one, otherwise the mean of the study's prior; and a sentence on its origin."""
    names = posterior.setup.problem.model.physical_names
    if states is not None:
        return {name: float(states.mean[name][0]) for name in names}, "the smoothed state at the first training sample"
    given: dict[str, Any] = dict(posterior.setup.problem.initials[index])
    if testing:
        own = {name: value for name, value in item.section.initial.items() if name in names}
        given |= {name: getattr(value, "distribution", value) for name, value in own.items()}
    return {name: _middle(name, given[name]) for name in names}, "the initial state that the study gives"


def _middle(name: str, value: Any) -> float:
    """The mean of a prior, or a fixed value."""
    try:
        return gaussian_moments(name, value)[0]
    except ValueError:
        return float(np.asarray(value.mean))


def _shift(part: slice | None, first: int) -> slice | None:
    return None if part is None else slice(part.start - first, part.stop - first)
