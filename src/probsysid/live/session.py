"""A live run from its parts: source, intake, engine, page; and its end.

with ps.Live(model, priors=..., noise=..., initial=..., dt=0.01) as live:
    for t, force, position in sensor:
        live.push({"force": force, "position": position}, t)
    live.wait()
live.posterior.table()
"""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from probsysid._internal.errors import InputError
from probsysid._internal.files import locked
from probsysid._internal.validation import is_real
from probsysid.data.intersample import Word
from probsysid.inference.problem_arguments import LatentArguments
from probsysid.live.alignment import Alignment, Gaps
from probsysid.live.channels import Channels
from probsysid.live.engine import Engine, Results
from probsysid.live.folder import JOURNAL, prepare, read_back
from probsysid.live.intake import Intake
from probsysid.live.journal import Journal
from probsysid.live.messages import Item, Message
from probsysid.live.settings import LiveOptions
from probsysid.live.track import Alarm, Track
from probsysid.model.kernels import Kernel
from probsysid.model.model import Model
from probsysid.model.noise import AnyNoise
from probsysid.model.priors import Prior, Priors
from probsysid.odefilter.solver import Solver
from probsysid.posterior.posterior import Posterior
from probsysid.smc.options import Sampler


class Session:
    """A running stream: what the command `live` and `Live` share."""

    def __init__(
        self,
        candidates: Mapping[str, Mapping[str, Any]],
        channels: Channels,
        options: LiveOptions,
        *,
        folder: Path | None = None,
        resume: bool = False,
        overwrite: bool = False,
        results: Sequence[Results] = (),
        on_posterior: Callable[[Engine], None] | None = None,
        on_alarm: Callable[[Alarm], None] | None = None,
    ):
        """`candidates` are arguments of `Identifier` by the name of a model."""
        first = next(iter(candidates.values()))
        dt, intersample = float(first["dt"]), first["intersample"]
        inputs = len(channels.inputs)
        gaps: Gaps = options.gaps or ("restart" if inputs else "missing")
        if gaps == "missing" and inputs:
            raise InputError("gaps is 'missing', but over a gap the inputs are not known; choose 'hold' or 'restart'.")
        alignment = Alignment(
            dt, inputs, gaps, max(1, round(options.patience / dt)), (intersample == "linear",) * inputs
        )
        columns = channels.names
        tracks = [Track(n, a, options, lambda k: self.engine.time_of(k), columns) for n, a in candidates.items()]
        self._closing = ExitStack()
        journal = None
        if folder is not None:
            prepare(folder, resume=resume, overwrite=overwrite)
            refusal = f"another run is writing to {folder}; wait for it, or choose another folder with --out."
            self._closing.enter_context(locked(folder / JOURNAL, refusal))
            journal = Journal(folder / JOURNAL, channels.names, dt)
            self._closing.callback(journal.close)
        self.intake = Intake(channels, alignment, journal)
        self.engine = Engine(tracks, self.intake, options, dt, folder, results, on_posterior, on_alarm)
        for result in results:
            self._closing.callback(result.close)
        if journal is not None:
            self.engine.restore(read_back(journal))
        self._reader: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._stopping = False

    def start(self, source: Iterable[Item] | None = None) -> None:
        """Begin to process; with a source, also to read it in a thread of its own."""
        self.engine.start()
        if source is not None:
            self.engine.state = lambda: str(getattr(source, "state", ""))
            self._reader = threading.Thread(target=self._read, args=(source,), name="probsysid: source", daemon=True)
            self._reader.start()

    def end(self, *, finish: bool) -> None:
        """End the run: after all samples are processed, or soon, leaving the others in the journal."""
        if finish:
            self.intake.finish()
            self.engine.join()
        else:
            self._stopping = True
            self.engine.stop()
            self.intake.close()
            self.engine.join()
        if self._reader is not None:
            self._stopping = True
            self._reader.join(2)
        self._closing.close()
        self.check()

    def check(self) -> None:
        """Raise what has ended the source or the engine."""
        failure, self._failure = self._failure or self.engine.failure, None
        self.engine.failure = None
        if failure is not None:
            raise failure

    @property
    def over(self) -> bool:
        """Whether the source has ended and all is processed, or something has failed."""
        return self._failure is not None or self.engine.join(0)

    def _read(self, source: Iterable[Item]) -> None:
        try:
            for item in source:
                if self._stopping:
                    return
                self.intake.push(item)
            self.intake.finish()
        except BaseException as error:
            self._failure = error
        finally:
            close = getattr(source, "close", None)
            if close is not None:
                close()


class Live:
    """A posterior that follows a stream in the background, with a watch for changes and, if wanted, a page.

    Args:
        model, priors, noise, initial, dt, intersample, solver, sampler, process_noise, unknown, drifts, seed, window:
            as for `Identifier`.  An unknown input with an entry in `noise` is an output of the stream.
        folder: for the journal of all samples, checkpoints and results; without one nothing is kept.
        resume: go on with the run in the folder.
        options: `LiveOptions`: blocks, gaps, false alarms.
        port: of the page at `http://127.0.0.1:PORT`; 0 for a free one, None for no page.
        on_posterior: called with this object twice per second, in the thread that computes.
        on_alarm: called with an `Alarm` when the data stop fitting the model.
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
        solver: Solver = Solver(),
        sampler: Sampler = Sampler(),
        process_noise: Mapping[str, Prior] | None = None,
        unknown: Mapping[str, Kernel] | None = None,
        drifts: Mapping[str, Kernel] | None = None,
        seed: int = 0,
        window: int | None = None,
        folder: str | Path | None = None,
        resume: bool = False,
        options: LiveOptions = LiveOptions(),
        port: int | None = None,
        on_posterior: Callable[["Live"], None] | None = None,
        on_alarm: Callable[[Alarm], None] | None = None,
    ):
        if not is_real(dt) or not 0 < dt < float("inf"):
            raise InputError(f"dt is {dt!r}; it must be a positive number of seconds.")
        given = {"model": model, "priors": priors, "noise": noise, "initial": initial, "process_noise": process_noise}
        given |= {"unknown": unknown, "drifts": drifts}
        grid = {"dt": dt, "intersample": intersample}
        arguments = {**given, **grid, "solver": solver, "sampler": sampler, "seed": seed, "window": window}
        latent = LatentArguments(unknown or {}, drifts or {}).processes(model, priors, tuple(noise), solver)
        joined = latent.joined(model)
        channels = Channels.plain(joined.input_names, joined.output_names)
        self._session = Session(
            {model.name or "model": arguments},
            channels,
            options,
            folder=None if folder is None else Path(folder),
            resume=resume,
            on_posterior=None if on_posterior is None else lambda _: on_posterior(self),
            on_alarm=on_alarm,
        )
        self._page: Any = None
        if port is not None:
            from probsysid.live.dashboard.server import Page

            self._page = Page(self._session.engine, model.name or "live", port=port)
        self._session.start()

    def push(self, values: Mapping[str, Any], time: Any = None) -> int:
        """One sample (numbers) or several (arrays): inputs and outputs by name, and their times in seconds.

        Returns as soon as they are saved, which takes milliseconds; the number of samples saved so far.  Without times
        they come one sampling interval after the other.
        """
        self._session.check()
        return self._session.intake.push(Message(values, time))

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all samples are in the posterior; returns whether they are."""
        done = self._session.engine.wait(timeout)
        self._session.check()
        return done

    @property
    def posterior(self) -> Posterior:
        """The posterior given all samples of the present segment but the last `lag`."""
        return self._session.engine.tracks[0].posterior()

    @property
    def lag(self) -> int:
        """Samples that are not in the posterior yet."""
        return self._session.engine.lag

    @property
    def alarms(self) -> list[Alarm]:
        """Alarms so far."""
        return list(self._session.engine.alarms)

    @property
    def counts(self) -> dict[str, int | str]:
        """Gaps, late, repeated and malformed samples."""
        return self._session.intake.counts.as_dict()

    @property
    def url(self) -> str:
        """The address of the page; empty if there is none."""
        return "" if self._page is None else str(self._page.url)

    def close(self, *, wait: bool = True) -> None:
        """End after all samples are processed, or without waiting, as soon as possible; everything is saved."""
        try:
            self._session.end(finish=wait)
        finally:
            if self._page is not None:
                self._page.close()

    def __enter__(self) -> "Live":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(wait=kind is None)
