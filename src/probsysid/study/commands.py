"""The commands that work on study files: `new`, `check`, `fit`, `report`.

They import what they need when they run, so that `probsysid --help` is there at once.
"""

import json
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from probsysid._internal.errors import ClusterError, InputError
from probsysid._internal.files import UNWRITTEN, unwritten
from probsysid._internal.interrupts import STOPPED, restore_after_importing, stop_on_signals
from probsysid.study.catalogue import NAMES
from probsysid.study.cluster_option import UNREACHABLE, ClusterOption, TlsCa, TlsCert, TlsKey, opened

if TYPE_CHECKING:
    from probsysid.inference.identify import Notice
    from probsysid.parallel.executor import Executor
    from probsysid.study.results import CandidateResult

UNTRUSTED = 4
"""Exit code of a fit whose sampling is not to be trusted; everything is written."""

StudyPath = Annotated[Path, typer.Argument(help="The study file.", metavar="STUDY.toml", show_default=False)]

StepOption = Annotated[float | None, typer.Option("--dt", help="Seconds per sample.", show_default=False)]
RateOption = Annotated[float | None, typer.Option("--fs", help="Samples per second.", show_default=False)]
TimeOption = Annotated[str | None, typer.Option("--time", help="The column of sample times.", show_default=False)]
InputOption = Annotated[
    list[str] | None, typer.Option("--input", help="A column that drives, or NAME=COLUMN; none.", show_default=False)
]
OutputOption = Annotated[
    list[str] | None, typer.Option("--output", help="A column that is measured, or NAME=COLUMN.", show_default=False)
]
UnitOption = Annotated[list[str] | None, typer.Option("--unit", help="COLUMN=UNIT, such as x=mm.", show_default=False)]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command(name="new")(new)
    app.command(name="check")(check)
    app.command(name="fit")(fit)
    app.command(name="report")(report)


def fit(
    study: StudyPath,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results. [default: STUDY-results]", show_default=False)
    ] = None,
    particles: Annotated[int | None, typer.Option(help="In place of sampler.particles.", show_default=False)] = None,
    seed: Annotated[int | None, typer.Option(help="In place of the study's seed.", show_default=False)] = None,
    method: Annotated[
        str | None,
        typer.Option(help="sample, or map: a first answer within seconds, not sampled.", show_default=False),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run that was stopped.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace results that are there.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Also write the summary there; - prints it.", show_default=False)
    ] = None,
    cluster: ClusterOption = None,
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
) -> None:
    """Identify the models of a study and write a folder of results.

    The folder holds report.html (one page to send on), summary.csv and summary.json (the numbers), posterior.nc (all
    particles), figures, the study as used and a log.  A run that is stopped with Ctrl-C goes on with --resume.

    Exit codes: 0 done, 1 sampling failed, 2 a mistake in the study or the data, 3 nothing more can be written (a full
    disk) or the cluster is lost, 4 not to be trusted, 130 stopped.

    Example: **probsysid fit oscillator.toml --particles 256**
    """
    from probsysid.study import run  # noqa: F401

    restore_after_importing()
    changes = _changes(particles, seed, method)
    with opened(cluster, tls_ca, tls_cert, tls_key, say_aside, quiet=quiet) as executor:
        fit_study(
            study,
            out,
            changes,
            resume=resume,
            overwrite=overwrite,
            quiet=quiet,
            json_file=json_file,
            executor=executor,
        )


def _changes(particles: int | None, seed: int | None, method: str | None) -> dict[str, Any]:
    """What the options change in the sections of a study."""
    options = {"particles": particles, "method": method}
    given = {name: value for name, value in options.items() if value is not None}
    return ({"sampler": given} if given else {}) | ({} if seed is None else {"seed": seed})


def fit_study(
    study: Path,
    out: Path | None = None,
    changes: dict[str, Any] | None = None,
    *,
    resume: bool = False,
    overwrite: bool = False,
    quiet: bool = False,
    json_file: Path | None = None,
    notice: "Notice | None" = None,
    executor: "Executor | None" = None,
) -> None:
    """The command `fit`, with `changes` in sections of the study; `notice` and `executor` are as for `identify`."""
    from probsysid.study import output_folder, run
    from probsysid.study.results import summary

    resolved, tables = run.load_study(study, changes)
    target = out or default_folder(study)
    if json_file is not None and str(json_file) != "-":
        output_folder.check_file(json_file)
    with output_folder.held(target), told_how_to_go_on(_resume_command(study, changes or {}, out)) as between:
        output_folder.check_free(target, resume=resume, overwrite=overwrite, ask=ask_on_terminal)
        say = (lambda _: None) if quiet else say_aside
        results = run.fit(
            resolved,
            tables,
            target,
            progress=not quiet,
            say=say,
            between=between,
            notice=notice,
            executor=executor,
        )
    write_summary(json.dumps(summary(resolved, results), indent=2, allow_nan=False), json_file)
    if not quiet and str(json_file) != "-":
        from probsysid.study.terminal_tables import show_results  # rich; `--help` does without

        show_results(results)
        typer.echo(f"Results in {target}; open {target / 'report.html'}")
    if not (target / "report.html").exists():
        typer.echo(f"probsysid: there is no report.html; log.txt says why. Then: probsysid report {target}", err=True)
    _end_untrusted(results)


@contextmanager
def told_how_to_go_on(again: str) -> Iterator[Callable[[], None]]:
    """End a command that is stopped or cannot write with the command that resumes it; yields what looks for a stop."""
    try:
        with stop_on_signals(signal.SIGTERM, insist=True) as request:
            yield request.check
    except KeyboardInterrupt:
        typer.echo(f"\nStopped. To go on: {again}", err=True)
        raise typer.Exit(STOPPED) from None
    except ClusterError as error:
        typer.echo(f"probsysid: {error} To go on, on another cluster or without one: {again}", err=True)
        raise typer.Exit(UNREACHABLE) from None
    except OSError as error:
        typer.echo(f"probsysid: {unwritten(error)} Once that is solved, go on: {again}", err=True)
        raise typer.Exit(UNWRITTEN) from None


def write_summary(text: str, path: Path | None) -> None:
    """To a file, or to the terminal for `-`."""
    if path is not None and str(path) != "-":
        path.write_text(text + "\n", encoding="utf-8")
    elif path is not None:
        typer.echo(text)


def _end_untrusted(results: "list[CandidateResult]") -> None:
    """Say which models are not to be trusted, and exit with a code of its own.  An approximation that was asked for and
    is close is none of them."""
    doubtful = [r for r in results if r.posterior.sampling is not None and not r.posterior.sampling.usable]
    for result in doubtful:
        typer.echo(f"probsysid: {result.candidate.name}: {result.posterior.sampling_verdict}", err=True)
    if doubtful:
        raise typer.Exit(UNTRUSTED)


def new(
    name: Annotated[str, typer.Argument(help="Name of the study; NAME.toml is written.", show_default=False)],
    data: Annotated[Path, typer.Option(help="The data file: csv, tsv, parquet, mat or npz.", show_default=False)],
    model: Annotated[
        str | None,
        typer.Option(
            help="A model of the catalogue; without it, equations to fill in.",
            show_default=False,
            autocompletion=lambda: list(NAMES),
        ),
    ] = None,
    masses: Annotated[int | None, typer.Option(help="How many, for mdof-chain.", show_default=False)] = None,
    dt: StepOption = None,
    fs: RateOption = None,
    time: TimeOption = None,
    inputs: InputOption = None,
    outputs: OutputOption = None,
    units: UnitOption = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Take all guesses without asking.")] = False,
) -> None:
    """Write a commented study file to start from.

    What is not given is guessed from names, units and values, and asked for on a terminal; every guess has its reason.
    First priors come from the scales of the data.  Look at both, then run **probsysid check NAME.toml**.

    Models: linear-sdof, duffing, duffing-asymmetric, coulomb, bouc-wen, emps, motor, pendulum, free-pendulum,
    van-der-pol, lotka-volterra, first-order-lag, one-compartment, cascaded-tanks, mdof-chain.

    Examples: **probsysid new oscillator --model duffing --data measurement.csv**,
    **probsysid new drive --data log.csv --fs 1000 --input "current=iq [A]" --output "speed [rpm]"**
    """
    from probsysid.study import output_folder
    from probsysid.study.choices import parse_choices
    from probsysid.study.scaffold import new_study

    restore_after_importing()
    path = Path(name if name.endswith(".toml") else f"{name}.toml")
    if path.name == ".toml":
        raise InputError(f"{name!r} is not the name of a study; write one such as oscillator.")
    output_folder.check_file(path)
    if path.exists():
        raise InputError(f"{path} exists already; choose another name.")
    options = (dt, fs, time, inputs or (), outputs or (), units or ())
    ask = _question if sys.stdin.isatty() and sys.stderr.isatty() and not yes else None
    text, remarks = new_study(path, data, model, masses, lambda table: parse_choices(table, *options), ask)
    path.write_text(text, encoding="utf-8")
    for remark in remarks:
        typer.echo(f"- {remark}")
    typer.echo(f"Wrote {path}. Look through it, then: probsysid check {shlex.quote(str(path))}")


def check(
    study: StudyPath,
    out: Annotated[
        Path | None, typer.Option(help="Where the picture goes. [default: STUDY-check.png]", show_default=False)
    ] = None,
    draws: Annotated[int, typer.Option(help="Sets of constants drawn from the prior.", min=4, max=2000)] = 64,
    seed: Annotated[int, typer.Option(help="Seed of the draws.", min=0)] = 0,
) -> None:
    """Look at a study before a long run: names, units, data, priors, step, time it will take.

    Simulates the model for constants drawn from the prior and draws the simulations over the data.  If the data lie far
    outside, priors, units or columns are wrong.

    Example: **probsysid check oscillator.toml**
    """
    from rich.console import Console
    from rich.markup import escape

    from probsysid.study import output_folder, run
    from probsysid.study.preflight import PICTURES, draw_prior, preflight

    restore_after_importing()
    resolved, _ = run.load_study(study)
    picture = out or study.with_name(f"{study.stem}-check.png")
    output_folder.check_file(picture)
    if picture.suffix.lower() not in PICTURES:
        raise InputError(f"{picture} is no picture that can be drawn; its name may end in {', '.join(PICTURES)}.")
    console = Console()
    worst = blocked = False
    for candidate in resolved.candidates:
        findings, simulations = preflight(resolved, candidate, draws, seed)
        console.print(f"[bold]{escape(candidate.name)}[/bold]")
        for finding in findings:
            mark = "[yellow]look[/yellow]" if finding.warning else "[green]  ok[/green]"
            console.print(f"  {mark}  {escape(finding.text)}", soft_wrap=True, highlight=False)
            worst, blocked = worst or finding.warning, blocked or finding.blocking
        several = len(resolved.candidates) > 1
        path = picture.with_name(f"{picture.stem}-{candidate.name}{picture.suffix}") if several else picture
        draw_prior(candidate, simulations, path)
        console.print(f"  prior simulations and data: {escape(str(path))}", soft_wrap=True, highlight=False)
    if blocked:
        typer.echo(
            f"Mend this first: a fit would fail or say nothing.  Then again: probsysid check {shlex.quote(str(study))}"
        )
        return
    text = "There are things to look at; if they are as you want them," if worst else "All is well;"
    typer.echo(f"{text} run: probsysid fit {shlex.quote(str(study))}")


def report(
    results: Annotated[Path, typer.Argument(help="A folder that fit wrote.", metavar="DIR", show_default=False)],
    out: Annotated[
        Path | None, typer.Option(help="Where the page goes. [default: DIR/report.html]", show_default=False)
    ] = None,
) -> None:
    """Write the report of a folder of results again.

    Reads the study, the data and the posterior.  The model is that of the study: code that the posterior carries is not
    run.
    """
    from probsysid.study import output_folder, run
    from probsysid.study.report_views import write_study_page

    restore_after_importing()
    path = out or results / "report.html"
    if out is not None:
        output_folder.check_file(path)
    with output_folder.held(results) if out is None else nullcontext():
        resolved, _, found = run.load_results(results)
        write_study_page(path, resolved, found, (results / "study.toml").read_text(encoding="utf-8"))
    typer.echo(f"Wrote {path}")


def default_folder(study: Path) -> Path:
    """The folder of results beside the study, unless another is given."""
    return study.with_name(f"{study.stem}-results")


def ask_on_terminal(question: str) -> bool:
    """Ask on a terminal; without one the answer is no."""
    return sys.stdin.isatty() and sys.stderr.isatty() and typer.confirm(question, err=True)


def _question(text: str, proposed: str) -> str:
    return str(typer.prompt(text, default=proposed or None, err=True))


def say_aside(text: str) -> None:
    """To the terminal, past what other programs read."""
    typer.echo(text, err=True)


def _resume_command(study: Path, changes: dict[str, Any], out: Path | None) -> str:
    """The command that resumes a run."""
    command = ["probsysid", "fit", str(study)]
    command += [] if out is None else ["--out", str(out)]
    options = {**changes.get("sampler", {}), **({"seed": changes["seed"]} if "seed" in changes else {})}
    command += [word for name, value in options.items() for word in (f"--{name}", str(value))]
    return shlex.join([*command, "--resume"])
