"""The option `--cluster` of commands, and those for its certificates."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from probsysid._internal.errors import InputError

if TYPE_CHECKING:
    from probsysid.parallel.cluster import Cluster

UNREACHABLE = 3
"""Exit code of a command whose cluster is lost; what was done so far is kept."""

ClusterOption = Annotated[
    str | None,
    typer.Option(
        help="Work on a Dask cluster: tls://host:8786, tcp://host:8786, or local:4 for four workers here.",
        metavar="ADDRESS",
        show_default=False,
    ),
]
TlsCa = Annotated[Path | None, typer.Option(help="Certificate of the authority, for tls://.", show_default=False)]
TlsCert = Annotated[Path | None, typer.Option(help="Certificate of this client, for tls://.", show_default=False)]
TlsKey = Annotated[Path | None, typer.Option(help="Key of that certificate, for tls://.", show_default=False)]


@contextmanager
def opened(
    text: str | None,
    ca: Path | None,
    cert: Path | None,
    key: Path | None,
    say: Callable[[str], None],
    *,
    quiet: bool = False,
) -> "Iterator[Cluster | None]":
    """The cluster that the options name, or none; `say` is told its dashboard, unless `quiet`, and warnings."""
    given = {name: path for name, path in {"ca": ca, "cert": cert, "key": key}.items() if path is not None}
    if text is None:
        if given:
            raise InputError(f"--tls-{next(iter(given))} is for a cluster; name one with --cluster tls://host:8786.")
        yield None
        return
    from probsysid.parallel.cluster import Cluster, parse_option  # JAX; `--help` does without

    for name in ("distributed", "distributed.client", "distributed.core", "distributed.comm"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # what matters is said in sentences
    with Cluster(**parse_option(text), security=given or None, say=say) as cluster:
        if not quiet:
            say(f"cluster: {cluster.address}; dashboard: {cluster.dashboard or 'none'}")
        yield cluster
