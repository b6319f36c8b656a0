"""The command line: `probsysid --help`."""

import sys

import typer

from probsysid.benchmarks import commands as benchmarks
from probsysid.errors import InputError, SamplingError
from probsysid.study import commands

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


@app.callback()
def _callback() -> None:
    """Commands are registered below, each from the part it belongs to."""


commands.register(app)
benchmarks.register(app)


def main() -> None:
    """Run a command; mistakes of the user's get one sentence and exit code 2, failed runs one and exit code 1."""
    try:
        app()
    except InputError as error:
        typer.echo(f"probsysid: {error}", err=True)
        sys.exit(2)
    except SamplingError as error:
        typer.echo(f"probsysid: {error}", err=True)
        sys.exit(1)
