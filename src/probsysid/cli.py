"""The command line: `probsysid --help`."""

import io
import sys
import warnings
from typing import Annotated, NoReturn

import typer

from probsysid import __version__
from probsysid._internal.errors import ClusterError, InputError, SamplingError
from probsysid._internal.files import UNWRITTEN, unwritten
from probsysid.benchmarks import commands as benchmarks
from probsysid.live import commands as live
from probsysid.study import commands, select_command
from probsysid.study.cluster_option import UNREACHABLE

app = typer.Typer(
    name="probsysid",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help=(
        "Identify nonlinear dynamic systems from sampled data, with honest uncertainty.\n\n"
        "Start with **probsysid new NAME --data FILE**: it writes a study file. Look through it, **check** it, "
        "**fit** it, and open the report."
    ),
)


def _say_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"probsysid {__version__}")
        raise typer.Exit


@app.callback()
def _callback(
    version: Annotated[
        bool, typer.Option("--version", help="Say which version this is.", callback=_say_version, is_eager=True)
    ] = False,
) -> None:
    """Commands are registered below, by the folder they belong to."""


commands.register(app)
select_command.register(app)
live.register(app)
benchmarks.register(app)


def main() -> None:
    """Run a command; an `InputError` prints one sentence and exits with code 2, a `SamplingError` with code 1, an
    `OSError`, such as a full disk, and a `ClusterError` with code 3."""
    # arviz 0.23 announces its successor on the first import of each day, during a fit.
    warnings.filterwarnings("ignore", message=r"\s*ArviZ is undergoing", category=FutureWarning)
    for stream in (sys.stdout, sys.stderr):  # a terminal without Greek letters must not end a run
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        app()
    except InputError as error:
        _end(str(error), 2)
    except SamplingError as error:
        _end(str(error), 1)
    except ClusterError as error:
        _end(str(error), UNREACHABLE)
    except OSError as error:
        _end(unwritten(error), UNWRITTEN)


def _end(sentence: str, code: int) -> NoReturn:
    """Print one sentence and exit."""
    typer.echo(f"probsysid: {sentence}", err=True)
    sys.exit(code)
