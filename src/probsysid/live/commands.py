"""The command `live`."""

import os
import shlex
import signal
import time as clock
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from probsysid._internal.errors import InputError, first_words
from probsysid._internal.interrupts import STOPPED, restore_after_importing, stop_on_signals

if TYPE_CHECKING:
    from probsysid.live.dashboard.server import Page
    from probsysid.live.engine import Results
    from probsysid.live.session import Session
    from probsysid.live.settings import LiveOptions

PORT = 5006

TOKEN = "PROBSYSID_TOKEN"
"""Environment variable with the token of a page that others may see."""


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(name="live")(live)


Study = Annotated[Path, typer.Argument(help="The study file.", metavar="STUDY.toml", show_default=False)]
SOURCE = "FILE.csv that grows, - for a pipe, replay:FILE, udp://:PORT, tcp://:PORT, mqtt://HOST/TOPIC."
Source = Annotated[str, typer.Option(help=SOURCE, show_default=False)]
Out = Annotated[Path | None, typer.Option(help="Folder of the run. [default: STUDY-live]", show_default=False)]
Interval = Annotated[float | None, typer.Option(help="Sampling interval in seconds.", show_default=False)]
Speed = Annotated[float, typer.Option(help="Of a replay; 0 for as fast as possible.", min=0.0)]
Particles = Annotated[int | None, typer.Option(help="In place of sampler.particles.", show_default=False)]
LINES = "Write results as JSON lines; - prints them."
WINDOW = "Samples that are kept at least, for a stream that does not end. [default: all]"
Window = Annotated[int | None, typer.Option(help=WINDOW, show_default=False)]
JsonLines = Annotated[Path | None, typer.Option("--json", help=LINES, show_default=False)]
Publish = Annotated[str | None, typer.Option(help="Publish results: mqtt://HOST/TOPIC.", show_default=False)]
Gap = Annotated[str | None, typer.Option(help="What a gap becomes: missing, hold or restart.", show_default=False)]
Patience = Annotated[float, typer.Option(help="Seconds for which samples wait for earlier ones.")]
FALSE_ALARMS = "Mean time between false alarms in seconds, at least; 0 watches for no change."
FalseAlarms = Annotated[float, typer.Option(help=FALSE_ALARMS)]
OnAlarm = Annotated[str, typer.Option(help="go-on, or restart from the priors (or see --keep).")]
Keep = Annotated[float, typer.Option(help="Information that such a restart keeps, from 0 to 1.")]
Address = Annotated[str, typer.Option(help="Where the page is seen; other than 127.0.0.1 needs a token.")]
Port = Annotated[int, typer.Option(help="Of the page; 0 for any that is free.")]
NoPage = Annotated[bool, typer.Option("--no-page", help="No page in the browser.")]
NoReport = Annotated[bool, typer.Option("--no-report", help="No report when the source ends.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with a run that has ended or was killed.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Throw an earlier run away.")]


def live(
    study: Study,
    source: Source,
    out: Out = None,
    dt: Interval = None,
    speed: Speed = 1.0,
    particles: Particles = None,
    window: Window = None,
    json_lines: JsonLines = None,
    publish: Publish = None,
    gaps: Gap = None,
    patience: Patience = 0.5,
    false_alarms: FalseAlarms = 86_400.0,
    on_alarm: OnAlarm = "go-on",
    keep: Keep = 0.0,
    address: Address = "127.0.0.1",
    port: Port = PORT,
    no_page: NoPage = False,
    no_report: NoReport = False,
    resume: Resume = False,
    overwrite: Overwrite = False,
) -> None:
    """Follow a stream: a posterior that is updated with every sample, on a page in the browser.

    Every accepted sample is on the disk before it is acknowledged, so that a run that is stopped or killed goes on with
    --resume and loses nothing.  The folder holds the journal of all samples, checkpoints, reports and posterior.nc.

    Exit codes: 0 the source has ended, 1 sampling failed, 2 a mistake in the study or the options, 3 nothing more can
    be written, 130 stopped.

    Example: **probsysid live oscillator.toml --source replay:measurement.csv**
    """
    from probsysid.live.settings import LiveOptions

    given: dict[str, Any] = {"gaps": gaps, "patience": patience, "keep": keep, "on_alarm": on_alarm.replace("-", " ")}
    options = LiveOptions(**given, false_alarms=false_alarms or None)
    run = _Run(study, source, out or study.with_name(f"{study.stem}-live"), dt, speed, particles, window)
    place = None if no_page else (address, port)
    results = [path for path in (json_lines, publish) if path is not None]
    _follow(run, options, results, place, report=not no_report, resume=resume, overwrite=overwrite)


class _Run(NamedTuple):
    """What is followed, and where it goes."""

    study: Path
    source: str
    folder: Path
    dt: float | None
    speed: float
    particles: int | None
    window: int | None

    @property
    def again(self) -> str:
        """The command that goes on."""
        words = ["probsysid", "live", str(self.study), "--source", self.source, "--out", str(self.folder)]
        for option, value in (("--dt", self.dt), ("--particles", self.particles), ("--window", self.window)):
            words += [] if value is None else [option, str(value)]
        return shlex.join([*words, "--resume"])


def _follow(
    run: _Run,
    options: "LiveOptions",
    results: list[Path | str],
    place: tuple[str, int] | None,
    *,
    report: bool,
    resume: bool,
    overwrite: bool,
) -> None:
    """Follow the source until it ends or a signal comes."""
    from probsysid.live.open_source import open_source
    from probsysid.live.session import Session
    from probsysid.live.study_setup import live_study

    restore_after_importing()
    setup = live_study(run.study, run.dt, run.particles, run.window)
    token = "" if place is None else _token(place[0])
    stream = open_source(run.source, setup.channels, setup.dt, setup.text, run.speed)
    session = Session(
        setup.candidates,
        setup.channels,
        options,
        folder=run.folder,
        resume=resume,
        overwrite=overwrite,
        results=[_result(where) for where in results],
        on_alarm=lambda alarm: typer.echo(f"ALARM  {alarm.text}", err=True),
    )
    with ExitStack() as stack, stop_on_signals(signal.SIGTERM, insist=True) as request:
        if place is not None:
            stack.callback(_shown(session, setup.title, place, token).close)
        session.start(stream)
        while not session.over and not request.is_set():
            clock.sleep(0.05)
        stopped = request.is_set() and not session.over
        session.end(finish=False)
    _finish(session, run.folder, report=report and not stopped, ended=not stopped)
    if stopped:
        typer.echo(f"\nStopped; {session.intake.saved} samples are saved. To go on: {run.again}", err=True)
        raise typer.Exit(STOPPED)


def _shown(session: "Session", title: str, place: tuple[str, int], token: str) -> "Page":
    from probsysid.live.dashboard.server import Page

    page = Page(session.engine, title, address=place[0], port=place[1], token=token)
    typer.echo(f"Watch it at {page.url}", err=True)
    return page


def _finish(session: "Session", folder: Path, *, report: bool, ended: bool) -> None:
    """Posteriors, and at the end of a stream reports."""
    for track in session.engine.tracks:
        if track.failure:
            typer.echo(f"probsysid: {track.name}: {track.failure}", err=True)
        if not track.identifier.run.samples:
            continue
        ending = "" if len(session.engine.tracks) == 1 else f"-{track.name}"
        posterior = track.posterior()
        posterior.save(folder / f"posterior{ending}.nc")
        posterior.table().to_csv(folder / f"summary{ending}.csv")
        if report and track.identifier.run.samples > 2:
            try:
                posterior.report(folder / f"report{ending}.html")
            except Exception as error:  # the numbers are there
                typer.echo(f"probsysid: no report of {track.name} could be written: {first_words(error)}", err=True)
    if ended:
        typer.echo(f"The source has ended; {session.intake.saved} samples. Results in {folder}", err=True)
    if all(track.failure for track in session.engine.tracks):
        raise typer.Exit(1)


def _result(where: Path | str) -> "Results":
    """A file of lines, or a topic."""
    from probsysid.live.mqtt import MqttResults
    from probsysid.live.results import LineFile

    return LineFile(where) if isinstance(where, Path) else MqttResults(where)


def _token(address: str) -> str:
    """None on this machine alone; elsewhere what the environment gives, or a new one."""
    from probsysid.live.dashboard.access import is_loopback, new_token

    if is_loopback(address):
        return os.environ.get(TOKEN, "")
    token = os.environ.get(TOKEN) or new_token()
    if len(token) < 16:
        raise InputError(f"{TOKEN} has {len(token)} characters; a token that protects the page has 16 or more.")
    typer.echo(f"The page can be reached from other machines at {address}, by all who know its token.", err=True)
    return token
