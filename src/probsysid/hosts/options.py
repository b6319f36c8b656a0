"""The options of commands that run on several hosts."""

from typing import Annotated

import typer

from probsysid import hosts

ALONE = "none"

Address = Annotated[
    str | None,
    typer.Option(
        "--hosts",
        metavar="NAME:PORT",
        help="Run on several hosts: where host 0 listens. Start the same command on each. Not needed under srun; "
        f"{ALONE} keeps processes that srun or mpirun has started apart.",
        show_default=False,
    ),
]
Count = Annotated[int | None, typer.Option("--host-count", help="How many hosts there are.", show_default=False)]
Index = Annotated[int | None, typer.Option("--host-index", help="Which one this is, from 0.", show_default=False)]
Timeout = Annotated[
    float, typer.Option("--host-timeout", help="Seconds after which a host that is not heard of counts as lost.")
]


def join(address: str | None, count: int | None, index: int | None, timeout: float) -> None:
    """Meet the other hosts, if there are any."""
    if address != ALONE:
        hosts.join(address, count, index, timeout=timeout)
