"""Independent runs of a study: here, one after the other, or as whole runs on the workers of a cluster.

Workers import `validation` themselves, so that runs of one problem share the programs that their worker has compiled.
Those of `local:4` find it; others are started in the folder that has it, with `PYTHONPATH=. PROBSYSID_DEVICES=1`.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import probsysid as ps
from probsysid.parallel.cluster import parse_option

ROOT = Path(__file__).resolve().parents[1]


@contextmanager
def opened(option: str | None) -> Iterator[ps.Cluster | None]:
    """The cluster of the option `--cluster`, or None."""
    if option is None:
        yield None
        return
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    os.environ["PROBSYSID_DEVICES"] = "1"  # local workers inherit both
    with ps.Cluster(**parse_option(option)) as cluster:
        yield cluster


def each(
    function: Callable[..., Any], calls: Sequence[tuple[Any, ...]], cluster: ps.Cluster | None = None
) -> Iterator[tuple[int, Any]]:
    """The index of every call and what `function` returns for it, in the order in which they come."""
    if cluster is None:
        yield from ((index, function(*arguments)) for index, arguments in enumerate(calls))
    else:
        yield from cluster.runs(function, calls)
