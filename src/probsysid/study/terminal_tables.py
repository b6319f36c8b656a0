"""Results on the terminal: a table for each model, what is doubtful, and the comparison of models."""

import math
from typing import TYPE_CHECKING, Literal

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from probsysid.posterior.posterior import Posterior
    from probsysid.study.results import CandidateResult


def _evidence(posterior: "Posterior") -> str:
    """The log evidence with its error, and Laplace's beside it."""
    error = posterior.log_evidence_error
    known = f" ± {error:.2f}" if math.isfinite(error) else ""
    modes = None if posterior.sampling is None else posterior.sampling.modes
    other = f" (Laplace: {modes.log_evidence:.2f})" if modes is not None and modes.found else ""
    return f"log evidence {posterior.log_evidence:.2f}{known}{other}"


def show_results(results: "list[CandidateResult]") -> None:
    """Print tables of the results."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from probsysid.report.html.formatting import with_uncertainty

    console = Console()
    for result in results:
        posterior = result.posterior
        table = Table(title=escape(result.candidate.name), title_justify="left")
        for column in ("", "mean", "sd", "5 %", "95 %", "unit"):
            justify: Literal["left", "right"] = "left" if column in ("", "unit") else "right"
            table.add_column(column, justify=justify, no_wrap=True)
        for name, row in result.table().iterrows():
            numbers = [with_uncertainty(row[key], row["sd"]) for key in ("mean", "sd", "q05", "q95")]
            table.add_row(escape(str(name)), *numbers, escape(row["unit"]))
        console.print(table)
        for name, flags in result.table()["flags"].items():  # a column would be cut on most terminals
            if flags:
                typer.echo(f"{name}: {flags}")
        for sentence in posterior.identifiability.sentences:
            typer.echo(f"not identified: {sentence}")
        for index, found in result.inputs.items():
            on = f" on {posterior.records[index].name or index + 1}" if len(result.inputs) > 1 else ""
            for sentence in found.sentences:
                typer.echo(f"{sentence}{on}")
        typer.echo(_evidence(posterior))
        for sentence in (posterior.sampling_verdict if result.trusted else "", posterior.verdict):
            if sentence:  # a run that is not to be trusted is said below, with all that is wrong
                typer.echo(sentence)
        for run in result.runs:
            for which, scores in run.scores().items():
                for output, values in scores.items():
                    fit = f"rmse {values['rmse']:.4g}, fit {values['fit_percent']:.1f} %, "
                    fit += f"{100 * values['coverage']:.0f} % in the 90 % band"
                    typer.echo(f"{output} on {run.measured.name} ({which}), free run: {fit}")
        if result.watch is not None:
            typer.echo(f"time: {result.watch}")
        for problem in result.problems:
            typer.echo(f"look: {problem}")
    if len(results) > 1:
        console.print(_comparison(results))


def _comparison(results: "list[CandidateResult]") -> "Table":
    """Models by evidence, with their errors on test data."""
    from rich.markup import escape
    from rich.table import Table

    from probsysid.study.results import comparison

    table = Table(title="models by evidence", title_justify="left")
    frame = comparison(results)
    errors = [column for column in frame if column.startswith("test rmse of ")]
    for column in ("", "log evidence", "error", "below the best", "probability", "sampling", *errors):
        table.add_column(escape(column), justify="right" if column else "left")
    for name, row in frame.iterrows():
        numbers = [f"{row[key]:.2f}" for key in ("log_evidence", "error", "below_best")]
        probability = "not known" if math.isnan(row["probability"]) else f"{row['probability']:.3g}"
        numbers += [probability, row["sampling"]]
        numbers += ["" if math.isnan(row[column]) else f"{row[column]:.4g}" for column in errors]
        table.add_row(escape(str(name)), *numbers)
    return table
