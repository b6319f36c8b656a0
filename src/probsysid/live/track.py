"""One model that follows the stream: its posterior, what is seen at every sample, and the watch for changes."""

import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from probsysid._internal.errors import InputError, SamplingError
from probsysid._internal.plain_data import Codec
from probsysid._internal.statistics import weighted_moments, weighted_quantile
from probsysid.inference.online import Identifier
from probsysid.live.change import Detector
from probsysid.live.restart import widened
from probsysid.live.settings import LiveOptions
from probsysid.live.suspect import Suspect, rank
from probsysid.live.watch import Seen, see
from probsysid.model.model import Model
from probsysid.model.noise import Noise
from probsysid.model.stored_priors import decode_part, encode_part
from probsysid.posterior.posterior import Posterior
from probsysid.smc.ibis import IBISState, StepInfo
from probsysid.targets.stream_target import StreamTarget

EARLIER = 32
"""States that are kept to go back to before the onset of a change."""

EVERY = 25
"""Samples between them."""

SUSPECTED = 400
"""Samples that are used, at most, to tell which constant has changed."""

QUIET = 200
"""Samples after an alarm before the next one is raised, doubled with each: where the model has become wrong and nobody
restarts, one message says so."""

LEVELS = (0.05, 0.5, 0.95)

CODEC = Codec((Noise,), encode_part, decode_part)
"""For priors and noise."""


LATER = 60
"""Samples after an alarm when it is asked again which constant has changed: an alarm comes when few are known."""

CLEAR = 3.0
"""Log likelihood by which one constant must explain the change better than any other to be named alone."""


class _Question(NamedTuple):
    """Which constant has changed, to be answered later."""

    earlier: IBISState
    stop: int
    onset: float


class Alarm(NamedTuple):
    """The data no longer fit the model as it was identified."""

    model: str
    sample: int
    time: float
    onset: float
    """Time since which another explanation is better."""
    suspects: tuple[Suspect, ...]
    text: str

    def as_dict(self) -> dict[str, Any]:
        found = [{"name": s.name, "before": s.before, "after": s.after, "gain": s.gain} for s in self.suspects[:3]]
        return {**self._asdict(), "suspects": found, "kind": "alarm"}


class Track:
    """One model on the stream.

    `arguments` are those of `Identifier`; `time_of` gives a sample of the present segment its time, `columns` are the
    channels of the rows, those of the model if not given.
    """

    def __init__(
        self,
        name: str,
        arguments: Mapping[str, Any],
        options: LiveOptions,
        time_of: Callable[[int], float],
        columns: Sequence[str] | None = None,
    ):
        self.name = name
        self.arguments = dict(arguments)
        self.options = options
        self.failure = ""
        self.segment = 0
        self.past_evidence = 0.0
        self.seen: list[Seen] = []
        self._time_of = time_of
        identifier = Identifier(**self.arguments)
        self._given = identifier.problem
        self.model: Model = self._given.model
        """With a coordinate for each unknown input and drift."""
        self.columns = tuple(columns or (*self.model.input_names, *self.model.output_names))
        self._begin(identifier)

    def _begin(self, identifier: Identifier) -> None:
        self.identifier = identifier
        self.identifier.watch(self._step)
        false_alarms, dt = self.options.false_alarms, self.arguments["dt"]
        outputs = len(self.model.output_names)
        self.detector = None if false_alarms is None else Detector(outputs, max(false_alarms / dt, 10.0))
        self._earlier: deque[IBISState] = deque(maxlen=EARLIER)
        self._raised: int | None = None
        self._found: Alarm | None = None
        self._questioned: _Question | None = None
        self._quiet_until, self._alarms = self.options.settle, 0
        self._target: StreamTarget | None = None
        self.last_state: dict[str, tuple[float, float]] = {}
        self._recent: deque[np.ndarray] = deque(maxlen=1000)

    # Samples

    def update(self, rows: np.ndarray) -> Alarm | None:
        """Process consecutive samples.  A model whose particles are lost stays behind."""
        if self.failure:
            return None
        self.seen, self._raised, self._found = [], None, None
        try:
            self._update(self.named(rows, self.model.input_names), self.named(rows, self.model.output_names))
        except (SamplingError, InputError) as error:
            self.failure = str(error)
            return None
        return self._found

    def named(self, rows: np.ndarray, names: Sequence[str]) -> dict[str, np.ndarray]:
        """Columns of rows by channel."""
        return {name: rows[:, self.columns.index(name)] for name in names}

    def _update(self, inputs: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray]) -> None:
        with suppress(KeyboardInterrupt):  # raised when all is done; the engine is told to stop by its own way
            self.identifier.update(inputs, outputs)

    def _step(self, before: IBISState, after: IBISState, info: StepInfo, target: StreamTarget) -> None:
        """Look at the samples of one step; called by the identifier."""
        self._target = target
        if before.state is not None and (
            not self._earlier or before.samples - self._earlier[-1].samples >= EVERY or not self._comparable(before)
        ):
            if not self._comparable(before):
                self._earlier.clear()
            self._earlier.append(before)
        seen = see(before, after.samples, target)
        if seen is None:
            return
        self.seen.append(seen)
        self._recent.extend(seen.state_mean)
        names = self.model.physical_names
        self.last_state = {n: (float(seen.state_mean[-1, j]), float(seen.state_sd[-1, j])) for j, n in enumerate(names)}
        for k, whites in enumerate(seen.white):
            sample = seen.first + k
            if self.detector is None or sample < self._quiet_until:
                continue
            for output, white in enumerate(whites):
                if self._raised is None and self.detector.add(sample, output, float(white)):
                    self._raised = sample
        if self._raised is not None and self._found is None:  # now: a window may drop the samples that tell why
            self._found = self._alarm(self._raised)

    def _comparable(self, run: IBISState) -> bool:
        return not self._earlier or (self._earlier[-1].level, self._earlier[-1].pilot) == (run.level, run.pilot)

    # Changes

    def _alarm(self, sample: int) -> Alarm:
        assert self.detector is not None
        onset = min(self.detector.onset, sample)
        suspects = tuple(self._suspects(onset, sample + 1))
        gains = [suspect.gain for suspect in suspects] + [0.0, 0.0]
        self.detector.reset(sample + 1)
        self._alarms += 1
        self._quiet_until = sample + QUIET * 2**self._alarms
        units = self.model.units
        words = "the data no longer fit the constants" if suspects else "the data do not fit the model"
        if gains[0] > gains[1] + CLEAR:
            words += f"; most suspicious: {suspects[0].describe(units.get(suspects[0].name, ''))}"
        text = f"{self.name}: t = {self._time_of(sample):.6g} s: since about {self._time_of(onset):.6g} s {words}"
        return Alarm(self.name, sample, self._time_of(sample), self._time_of(onset), suspects, text)

    def _suspects(self, onset: int, stop: int) -> list[Suspect]:
        """What may have changed, from the newest state that is kept from before the onset."""
        onset = max(onset, stop - SUSPECTED)
        fitting = [run for run in self._earlier if run.samples <= onset and self._is_kept(run)]
        if not fitting or self._target is None or stop - fitting[-1].samples > 2 * SUSPECTED:
            return []
        self._questioned = _Question(fitting[-1], stop + LATER, self._time_of(onset))
        return self._ranked(fitting[-1], stop)

    def _is_kept(self, run: IBISState) -> bool:
        """Whether the samples after those of an earlier run are still there."""
        return self._target is not None and run.samples > self._target.begin

    def _ranked(self, earlier: IBISState, stop: int) -> list[Suspect]:
        assert self._target is not None
        draws = np.asarray(self._target.sample_prior(jax.random.key(0), 256))
        return rank(earlier, self._target, stop, np.std(draws, axis=1))

    def diagnosis(self) -> dict[str, Any] | None:
        """Some samples after an alarm: which constant has changed, as far as these tell."""
        if self._questioned is None or self.identifier.run.samples < self._questioned.stop or self._target is None:
            return None
        question, self._questioned = self._questioned, None
        if not self._is_kept(question.earlier):
            return None
        found = self._ranked(question.earlier, question.stop)
        if not found:
            return None
        clear = len(found) < 2 or found[0].gain > found[1].gain + CLEAR
        units = self.model.units
        shown = found[:1] if clear else found[:2]
        words = " or ".join(s.describe(units.get(s.name, "")) for s in shown)
        text = f"{self.name}: since about t = {question.onset:.6g} s the data say: {words}"
        listed = [{"name": s.name, "before": s.before, "after": s.after, "gain": s.gain} for s in found[:3]]
        return {"kind": "diagnosis", "model": self.name, "time": question.onset, "text": text, "suspects": listed}

    # New starts

    def next_arguments(self, keep: float) -> dict[str, Any]:
        """Priors for a new start from here, as data that a journal can keep."""
        if not self.identifier.samples or self.failure:
            return {}
        spread = np.std(np.array(self._recent), axis=0) if len(self._recent) > 1 else None
        names = self._given.given_model.physical_names
        states = {}
        for j, name in enumerate(names):
            mean, sd = self.last_state.get(name, (0.0, 1.0))
            if keep >= 1 and spread is not None:  # after a gap the motion may be anywhere
                mean, sd = float(np.mean(np.array(self._recent)[:, j])), float(2 * spread[j] + sd)
            elif spread is not None:
                sd = float(np.hypot(3 * sd, 0.1 * spread[j]))
            states[name] = (mean, sd)
        found = widened(self.identifier.posterior, self._given, keep, states, self.last_state)
        return {key: None if value is None else _encoded(value) for key, value in found.items()}

    def restart(self, stored: Mapping[str, Any]) -> None:
        """Begin a new segment, with what `next_arguments` gave."""
        if self.identifier.samples:
            self.past_evidence += self.log_evidence
        changes = {key: None if value is None else CODEC.decode(value) for key, value in stored.items()}
        self.arguments |= changes
        self.segment += 1
        self.failure = ""
        self._begin(Identifier(**self.arguments))

    # What is shown

    @property
    def log_evidence(self) -> float:
        """Of the present segment."""
        run = self.identifier.run
        found = run.evidence_by_island
        return float(np.logaddexp.reduce(found) - np.log(len(found)))

    def numbers(self) -> dict[str, Any]:
        """The posterior in a few numbers."""
        run = self.identifier.run
        weights = run.normalised_weights
        space = self.identifier.problem.space
        values = {name: np.asarray(v) for name, v in space.values(run.flat_theta).items()}
        parameters = {}
        for name, column in values.items():
            if column.ndim == 1:
                mean, sd = weighted_moments(column, weights)
                low, middle, high = weighted_quantile(column, weights, LEVELS)
                found = {"mean": mean, "sd": sd, "q05": float(low), "q50": float(middle), "q95": float(high)}
                parameters[name] = found
        return {
            "samples": run.samples,
            "segment": self.segment,
            "ess": float(1 / np.sum(weights**2)),
            "log_evidence": self.past_evidence + self.log_evidence,
            "change": None if self.detector is None else self.detector.level,
            "failure": self.failure,
            "parameters": parameters,
        }

    def values(self) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Particles by quantity, and their weights."""
        run = self.identifier.run
        found = {name: np.asarray(v) for name, v in self.identifier.problem.space.values(run.flat_theta).items()}
        return {name: v for name, v in found.items() if v.ndim == 1}, run.normalised_weights

    def posterior(self) -> Posterior:
        return self.identifier.posterior

    # Files

    def save(self, path: Path) -> None:
        """A checkpoint of the present segment."""
        self.identifier.save(path)

    def load(self, path: Path) -> int:
        """Go on from a checkpoint of the present segment; how many of its samples it holds."""
        if not path.exists():
            return 0
        self._begin(Identifier.load(path, model=self.arguments["model"]))
        return self.identifier.samples


def _encoded(value: Any) -> Any:
    return json.loads(json.dumps(CODEC.encode(value)))
