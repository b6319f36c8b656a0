"""The commands `probsysid benchmark` and `probsysid data`.

They import what they need when they run, so that `probsysid --help` is there at once.
"""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from probsysid._internal.interrupts import restore_after_importing
from probsysid.study.cluster_option import ClusterOption, TlsCa, TlsCert, TlsKey, opened


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command("benchmark")(benchmark)
    app.command("data")(data)


def benchmark(
    case: Annotated[
        str,
        typer.Argument(
            help="bouc-wen, silverbox, emps, pendulum, tanks, or all: every case with all its models and methods, "
            "without those whose terms are searched for"
        ),
    ],
    method: Annotated[
        str | None,
        typer.Option(
            help="default, or paper: the paper's choices to the letter; if not given, default for one case and both "
            "for all"
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="a model of the case, the first if not given; selected (silverbox): its terms are chosen by evidence"
        ),
    ] = None,
    particles: Annotated[int | None, typer.Option(help="how many; the case's own number if not given")] = None,
    seed: Annotated[int, typer.Option(help="every random decision of the sampler follows from it")] = 0,
    data: Annotated[Path | None, typer.Option(help="folder with the data; else PROBSYSID_DATA, else the cache")] = None,
    out: Annotated[Path, typer.Option(help="folder for posteriors, figures and reports")] = Path("benchmarks"),
    json: Annotated[Path | None, typer.Option(help="file for the figures; a list if all cases run")] = None,
    again: Annotated[
        bool, typer.Option("--again", help="all: repeat what is in --out already, with these options and this version")
    ] = False,
    cluster: ClusterOption = None,
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
) -> None:
    """Reproduce a published case study and score it against the paper, the limit and a trivial baseline."""
    from probsysid.benchmarks.batch import BatchOptions, run_batch

    restore_after_importing()
    with opened(cluster, tls_ca, tls_cert, tls_key, partial(typer.echo, err=True)) as workers:
        run_batch(case, method, model, BatchOptions(particles, seed, data, out, json, again, workers))


def data(name: Annotated[str, typer.Argument(help="bouc-wen, silverbox, emps, pendulum, tanks, or all")]) -> None:
    """Download a benchmark's files into the cache (or PROBSYSID_DATA), check them, and say whom to cite."""
    from probsysid._internal.validation import choose
    from probsysid.benchmarks.batch import ALL
    from probsysid.benchmarks.data import SOURCES, download

    restore_after_importing()
    if name != ALL:
        choose("benchmark", name, {**SOURCES, ALL: None})
    for source in SOURCES.values() if name == ALL else [SOURCES[name.lower().replace("_", "-")]]:
        place = download(source.name)
        typer.echo(f"{source.name}: {', '.join(source.files)} in {place}, checksums right")
        typer.echo(f"  cite: {source.citation}")
