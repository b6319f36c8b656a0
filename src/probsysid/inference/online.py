"""Online identification, sample by sample or block by block.

    online = Identifier(model, priors=..., noise=..., initial=..., dt=0.01)
    online.update({"force": F_t}, {"position": y_t})      # one sample, or arrays with several
    online.posterior.table()
    online.save("state.npz"); online = Identifier.load("state.npz")

`update` returns when the samples are in the posterior: usually after milliseconds, but a rejuvenation filters all
samples so far again.  A program that must not wait calls `submit` instead: the samples are queued and processed by a
background thread.

    with Identifier(...) as online:
        for F_t, y_t in sensor:
            online.submit({"force": F_t}, {"position": y_t})  # returns at once
            online.lag, online.posterior                      # samples still queued; the posterior given all others

The posterior equals that of a batch run over the same samples with the same seed and `Sampler(recover=False)`, at any
time: both call the same code, and no random decision depends on the portions in which samples arrive.  (A run is mended
only at its end.)
"""

import json
import threading
import time as clock
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from probsysid._internal.errors import InputError
from probsysid._internal.files import write_atomically
from probsysid._internal.interrupts import stop_on_signals
from probsysid._internal.plain_data import Codec, UnstorableError
from probsysid._internal.validation import check_mapping, checked_path, checked_target, is_real
from probsysid._internal.worker import BackgroundWorker
from probsysid.inference.argument_checks import check_arguments
from probsysid.inference.particle_filters import check_window, solver_for
from probsysid.inference.posterior_from_run import posterior_from_run
from probsysid.inference.problem_arguments import LatentArguments
from probsysid.inference.run_fingerprint import problem_fingerprint
from probsysid.inference.stream_samples import checked_samples
from probsysid.inference.window import Window
from probsysid.model.kernels import Kernel
from probsysid.model.model import Model
from probsysid.model.noise import AnyNoise
from probsysid.model.priors import Prior, Priors
from probsysid.model.problem import Problem
from probsysid.model.varying import Variation
from probsysid.odefilter.solver import Solver
from probsysid.parallel.default import default_executor
from probsysid.parallel.executor import Executor
from probsysid.particlefilter.settings import ParticleFilter
from probsysid.posterior.posterior import Posterior
from probsysid.posterior.stored_setup import decode_setup, encode_setup
from probsysid.smc import checkpoint as disk
from probsysid.smc import ibis
from probsysid.smc.adaptive_substeps import first_level
from probsysid.smc.history import History
from probsysid.smc.ibis import IBISState, StepInfo
from probsysid.smc.options import ALGORITHMS, Sampler
from probsysid.smc.pilot import certify, forward
from probsysid.targets.carried import CarriedPosterior
from probsysid.targets.growing_record import GrowingRecord, SampleBlock, Word, joined
from probsysid.targets.stream_target import StreamTarget

SAMPLERS = Codec((Sampler, *ALGORITHMS))
"""Samplers and their algorithms as data."""


class Snapshot(NamedTuple):
    """The progress of an identification.  It is replaced as a whole and never changed, so that other threads see a
    consistent one, and an interruption leaves one."""

    run: IBISState
    history: History
    """Of the steps before `later`."""
    later: Any
    """Further steps as a linked list: the last one, and those before it."""
    seconds: float
    window: Window | None = None

    def after(self, run: IBISState, step: StepInfo, seconds: float, window: Window | None) -> "Snapshot":
        return Snapshot(run, self.history, (step, self.later), self.seconds + seconds, window)

    def gathered(self) -> "Snapshot":
        """The same with a history of all steps."""
        steps, rest = [], self.later
        while rest is not None:
            step, rest = rest
            steps.append(step)
        history = self.history.copy()
        for step in reversed(steps):
            history.add(step)
        return self._replace(history=history, later=None)


Watcher = Callable[[IBISState, IBISState, StepInfo, StreamTarget], None]


class Identifier:
    """A posterior that is updated with every sample.

    Args:
        model, priors, noise, initial, solver, sampler, process_noise, varies, unknown, drifts, seed, executor: as for
            `identify`; noise levels have to be given as numbers or priors, since there are no data yet to guess from.
            A stream is one record: what varies has one value in it, and its spread stays at its prior.
        dt: sampling interval.
        intersample: `"linear"` or `"zoh"`; band-limited inputs would need the future.
        window: samples that are kept at least, for streams that do not end: twice as many at most.  What those before
            have said is carried on as a quadratic function, once the posterior is close to a Gaussian; it then takes
            the place of samples in rejuvenations, whose duration is bounded.  None keeps them all.
    """

    def __init__(
        self,
        model: Model,
        priors: Priors,
        noise: Mapping[str, AnyNoise],
        initial: Mapping[str, Prior],
        dt: float,
        *,
        intersample: Word = "linear",
        solver: Solver | ParticleFilter = Solver(),
        sampler: Sampler = Sampler(),
        process_noise: Mapping[str, Prior] | None = None,
        varies: Mapping[str, Variation] | None = None,
        unknown: Mapping[str, Kernel] | None = None,
        drifts: Mapping[str, Kernel] | None = None,
        seed: int = 0,
        executor: Executor | None = None,
        window: int | None = None,
    ):
        check_arguments(model, priors, noise, process_noise, varies, solver, sampler, executor, seed)
        solver = solver_for(model, solver, noise)
        check_mapping("noise", noise, "{'position': 0.1}")
        check_mapping("initial", initial, "{'x': 0.0, 'dx': 0.0}")
        if not is_real(dt) or not 0 < dt < float("inf"):
            raise InputError(f"dt is {dt!r}; it must be a positive number of seconds.")
        if intersample not in ("linear", "zoh"):
            raise InputError(f"intersample is {intersample!r}; online it must be 'linear' or 'zoh'.")
        if sampler.path != "data":
            raise InputError("sampler: path is 'likelihood', which needs all data at once; online it must be 'data'.")
        for name in model.output_names:
            if name not in noise and name not in model.law_names:
                raise InputError(f"noise has no entry for {name!r}; online, give a number or a prior.")
        latent = LatentArguments(unknown or {}, drifts or {}).processes(model, priors, tuple(noise), solver)
        problem = Problem.make(model, priors, noise, [initial], process_noise, varies, latent)
        solver = solver.for_problem(problem)
        check_window(solver, window)
        particles, executor = sampler.particles, executor or default_executor()
        target = StreamTarget(
            problem, solver, particles, executor, GrowingRecord(problem.model, float(dt), intersample)
        )
        run = ibis.start(target, sampler, int(seed), first_level(target))
        checked = None if window is None else Window.checked(window, target)
        self._begin(target, sampler, Snapshot(run, History(sampler.islands), None, 0.0, checked))

    def _begin(self, target: StreamTarget, sampler: Sampler, snapshot: Snapshot) -> None:
        self._target = target
        self._sampler = sampler
        self._snapshot = snapshot
        self._queue: deque[SampleBlock] = deque()
        self._certified: tuple[Snapshot, IBISState, StepInfo] | None = None
        """The posterior that was looked at last."""
        self._changing = threading.Lock()
        """Held while samples or results are handed over, never while anything is computed."""
        self._background = BackgroundWorker(self._step)
        self._watcher: Watcher | None = None

    def watch(self, watcher: "Watcher | None") -> None:
        """Call `watcher(before, after, step, stream)` after every step, in the thread that computes: the run before and
        after it, what it did, and the samples.  It must not change anything."""
        self._watcher = watcher

    @property
    def samples(self) -> int:
        """The number of samples received."""
        with self._changing:
            return self._end

    @property
    def first_kept(self) -> int:
        """Samples before this one are no longer kept; 0 without a window."""
        return self._target.stream.first

    @property
    def run(self) -> IBISState:
        """The sampler's state after the samples that are in the posterior."""
        return self._snapshot.run

    @property
    def problem(self) -> Problem:
        """The model with its priors."""
        return self._target.problem

    @property
    def lag(self) -> int:
        """The number of samples that are not in the posterior yet."""
        return self.samples - self._snapshot.run.samples

    @property
    def posterior(self) -> Posterior:
        """The posterior given all samples but the last `lag`.

        Where the particles follow the stream with Runge-Kutta steps, they are taken over to the probabilistic solver
        now, which takes about one pass of all samples through it; the stream goes on as if nothing had been asked.
        """
        with self._changing:
            self._snapshot = snapshot = self._snapshot.gathered()
            target, count = self._target, snapshot.run.samples
        target = target.on(target.stream.until(count), target.carried)
        run, history = self._certify(snapshot, target)
        # states before the present ones cannot be told without the samples before
        records = (target.stream.record(0, count),) if count and target.carried is None else ()
        return posterior_from_run(
            run, history, target.problem, target.solver, records, self._sampler, seconds=snapshot.seconds
        )

    def _certify(self, snapshot: Snapshot, target: StreamTarget) -> tuple[IBISState, History]:
        """A run by the solver itself, and its history."""
        if not snapshot.run.pilot:
            return snapshot.run, snapshot.history
        known = self._certified
        if known is None or known[0].run is not snapshot.run:
            self._certified = known = snapshot, *certify(snapshot.run, target, self._sampler)
        history = snapshot.history.copy()
        history.add(known[2])
        return known[1], history

    def update(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        """Process one sample (numbers) or several (arrays of one length); NaN outputs are missing.

        Nothing is taken in if anything is wrong with the values.  If sampling fails, the samples are kept and the
        state before them, too.
        """
        self._take(inputs, outputs)
        with stop_on_signals() as request:
            self._background.here()
            request.check()

    def submit(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        """As `update`, without waiting: the samples are queued and processed by a background thread.

        If sampling has failed since the last call, this one says so; its samples are queued all the same.
        """
        self._take(inputs, outputs)
        self._background.check()
        self._background.start()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all samples are in the posterior, at most `timeout` seconds; returns whether they are."""
        if timeout is None:
            self._background.here()
        elif self.lag:
            self._background.check()
            self._background.start()
        return self._background.wait(timeout) and self.lag == 0

    def close(self, *, wait: bool = True) -> None:
        """End the thread of `submit`, after all samples are in the posterior or, without waiting, as soon as possible.

        Samples that are still queued are kept: `save` stores them, and the next `update`, `submit` or `wait` processes
        them.
        """
        try:
            if wait:
                self.wait()
        finally:
            self._background.stop(wait=wait)

    def __enter__(self) -> "Identifier":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(wait=kind is None)

    def save(self, path: str | Path) -> None:
        """Write everything to a file, atomically, queued samples included."""
        file = checked_target(path)
        with self._changing:
            self._snapshot = snapshot = self._snapshot.gathered()
            target, queue = self._target, self._waiting()
            extra = {f"channel:{name}": values for name, values in _with_blocks(target.stream, queue).items()}
        kept = {"carried": target.carried, "noted": snapshot.window and snapshot.window.noted}
        extra |= {f"{key}:{name}": v for key, each in kept.items() if each for name, v in each.arrays.items()}
        extra["options"] = np.frombuffer(json.dumps(self._options(snapshot)).encode(), dtype=np.uint8)
        mark = problem_fingerprint(target.problem, target.solver, self._sampler, snapshot.run.seed)
        write_atomically(file, disk.pack(snapshot.run, snapshot.history, mark, extra))

    def _options(self, snapshot: Snapshot) -> dict[str, Any]:
        """Everything but the samples and the state, as data."""
        target = self._target
        try:
            sampler = SAMPLERS.encode(self._sampler)
        except UnstorableError as error:
            raise InputError(f"the sampler cannot be stored: {error}.") from None
        setup = encode_setup(target.problem, target.solver)
        length = None if snapshot.window is None else snapshot.window.length
        stream = {"dt": target.stream.dt, "intersample": target.stream.intersample, "first": target.stream.first}
        plain = {**stream, "seconds": snapshot.seconds, "window": length}
        return {**plain, "setup": setup, "sampler": sampler}

    @classmethod
    def load(cls, path: str | Path, *, model: Model | None = None, executor: Executor | None = None) -> "Identifier":
        """Resume from a file that `save` wrote, which holds data and no code.

        A model with a loop, or with a derivative of its own, is not stored: then `model` has to be given.
        """
        run, history, extra = disk.unpack(checked_path(path))
        if "options" not in extra:
            raise InputError(f"{path} is a checkpoint of a batch run; give it to identify(..., checkpoint=...).")
        try:
            options = json.loads(extra["options"].tobytes().decode())
            dt, intersample, seconds = float(options["dt"]), options["intersample"], float(options["seconds"])
            first, length = int(options.get("first", 0)), options.get("window")
            carried, noted = (_carried(extra, key) for key in ("carried", "noted"))
            problem, solver = decode_setup(options["setup"], model)
            sampler = SAMPLERS.decode(options["sampler"])
        except (UnstorableError, InputError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise InputError(f"{path} cannot be resumed: {str(error).rstrip('.')}.") from None
        channels = {k.removeprefix("channel:"): v for k, v in extra.items() if k.startswith("channel:")}
        stream = GrowingRecord(problem.model, dt, intersample, first, channels)
        substeps = 2**run.level if solver.substeps == "auto" else None
        particles, executor = sampler.particles, executor or default_executor()
        target = StreamTarget(problem, solver, particles, executor, stream, substeps=substeps, carried=carried)
        window = None if length is None else Window(length, noted)
        self = cls.__new__(cls)
        self._begin(target, sampler, Snapshot(run, history, None, seconds, window))
        return self

    def _take(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        """Check samples and queue them."""
        count, channels = checked_samples(self._target.problem, inputs, outputs)
        if count:
            with self._changing:
                self._queue.append(SampleBlock(self._end, count, channels))

    def _step(self) -> bool:
        """Process a range of samples, at most up to the next rejuvenation; returns whether there was one."""
        began, before, window = clock.perf_counter(), self._snapshot.run, self._snapshot.window
        with self._changing:
            end = self._end if window is None else min(self._end, window.end(before.samples))
            blocks = self._waiting()
            if fresh := [cut for block in blocks if (cut := block.between(block.first, end)).samples]:
                self._target.stream.append(joined(fresh))
            self._queue = deque(self._waiting())
        if before.samples == self._target.stream.count:
            return False
        used = target = self._target
        run, step = forward(before, target, self._sampler)
        if target.adaptive:
            target = target.at(run.level)
        after = run
        if window is not None and run.samples == window.end(before.samples):
            window, after, target = window.moved(run, target)
            step = step._replace(rebased=after.evidence_by_island)
        with self._changing:
            self._snapshot = self._snapshot.after(after, step, clock.perf_counter() - began, window)
            self._target = target
        if self._watcher is not None:
            self._watcher(before, run, step, used)
        return True

    @property
    def _end(self) -> int:
        """The number of samples, queued ones included."""
        return self._queue[-1].first + self._queue[-1].samples if self._queue else self._target.stream.count

    def _waiting(self) -> list[SampleBlock]:
        """The queue without the samples that are in the stream already."""
        cut = (block.between(self._target.stream.count, self._end) for block in self._queue)
        return [block for block in cut if block.samples]


def _carried(arrays: Mapping[str, np.ndarray], key: str) -> CarriedPosterior | None:
    """A carried posterior from the arrays of a file; None if there is none."""
    found: dict[str, Any] = {n.removeprefix(f"{key}:"): v for n, v in arrays.items() if n.startswith(f"{key}:")}
    return CarriedPosterior(**found | {"samples": int(found["samples"])}) if found else None


def _with_blocks(stream: GrowingRecord, blocks: Sequence[SampleBlock]) -> dict[str, np.ndarray]:
    """All samples by channel, followed by those of the blocks."""
    own = stream.channels
    if not blocks:
        return own
    more = joined(blocks)
    return {name: np.concatenate([own.get(name, np.empty(0)), values]) for name, values in more.items()}
