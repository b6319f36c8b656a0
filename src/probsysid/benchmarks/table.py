"""Tables of runs: scores beside the paper's, the limit and the baseline; parameters; evidence and cost."""

from collections.abc import Sequence

from rich.table import Table

from probsysid.benchmarks.run import Finished, Outcome

Runs = Sequence[Outcome | Finished]


def score_table(runs: Runs) -> Table:
    """One row per protocol, one section per run."""
    table = Table(title="Root mean square error in free run, over particles", title_justify="left")
    table.add_column("test", no_wrap=True)
    for name in ("min", "mean", "max", "fit %", "paper", "limit", "baseline", "in 90 % band"):
        table.add_column(name, justify="right", no_wrap=True)
    for run in runs:
        result, limits = run.result, run.context.limits
        table.add_section()
        table.add_row(f"{run.study.title}, {result.method}", *[""] * 8)
        for protocol in run.study.protocols:
            score, limit = result.test[protocol.name], limits.get(protocol.name)
            table.add_row(
                f"  {protocol.name} [{protocol.unit}]".replace("[", "\\["),
                *(f"{value:.3g}" for value in (score.rmse_min, score.rmse_mean, score.rmse_max)),
                f"{score.fit_percent:.2f}",
                "-" if protocol.paper is None else f"{protocol.paper.mean:.3g}",
                "-" if limit is None else f"{limit.rmse_mean:.3g}",
                f"{score.baseline:.3g}",
                "-" if score.coverage is None else f"{100 * score.coverage:.1f} %",
            )
    return table


def parameter_table(outcome: Outcome) -> Table:
    """Posterior of each parameter beside its true or published value."""
    study, posterior = outcome.study, outcome.posterior
    known = {**study.truth, **study.reference}
    head = "true" if study.truth else "published"
    table = Table(title=f"{study.title}: {study.equation}", title_justify="left")
    for name in ("parameter", "mean", "sd", "5 %", "95 %", "unit", *([head] if known else [])):
        table.add_column(name, justify="left" if name in ("parameter", "unit") else "right", no_wrap=True)
    for name, row in posterior.table().iterrows():
        cells = [name, *(f"{row[key]:.5g}" for key in ("mean", "sd", "q05", "q95")), row["unit"]]
        if known:
            cells.append(f"{known[name]:.5g}" if name in known else "")
        table.add_row(*cells)
    return table


def evidence_table(runs: Runs) -> Table:
    """Log evidence and cost of each run."""
    table = Table(title="Log evidence and cost", title_justify="left")
    table.add_column("run", no_wrap=True)
    for name in ("log evidence", "error", "trusted", "seconds", "sweeps", "particles"):
        table.add_column(name, justify="right")
    for run in runs:
        result = run.result
        error = result.log_evidence_error
        table.add_row(
            f"{run.study.title}, {result.method}",
            f"{result.log_evidence:.2f}",
            "-" if error is None else f"{error:.2f}",
            {None: "-", True: "yes", False: "no"}[result.trusted],
            f"{result.seconds:.0f}",
            f"{result.sweeps:.0f}",
            str(result.particles),
        )
    return table
