"""`python -m validation [STUDY ...] [--again]`: run studies, by default all without a result, and write the pages.

The honesty matrix stores every data set of every cell separately and runs the missing ones; `--problem` and `--method`
select cells, `--sets` the number of data sets per cell (0 only writes the page), `--seed` which.

With `--cluster local:4`, or the address of a Dask scheduler, data sets of the honesty matrix and of the calibration,
and runs that are killed, are whole runs on its workers (`validation/workers.py`).
"""

import argparse
import json
import os
import platform
import time
from pathlib import Path
from typing import Any

import probsysid as ps
from validation import bias, calibration, kills, lotka_volterra, nuts, page, robustness
from validation.honesty import page as honesty_page
from validation.honesty import study as honesty
from validation.workers import opened

RESULTS = Path(__file__).parent / "results"


def _calibration(folder: Path, cluster: ps.Cluster | None = None) -> dict[str, Any]:
    result = calibration.run(folder, cluster=cluster)
    calibration.plot(result, page.FIGURE)
    return result


STUDIES = {
    "kills": kills.run,
    "nuts": nuts.run,
    "lotka-volterra": lotka_volterra.run,
    "bias": bias.run,
    "calibration": _calibration,
}

DIVIDED = ("kills", "calibration")
"""Studies of independent runs, which a cluster takes one by one, as it does those of the honesty matrix."""

HONESTY, ROBUSTNESS = "honesty", "robustness"


def machine() -> str:
    """The kind of machine, not its name."""
    return f"{os.cpu_count()} cores {platform.machine()}, {platform.system()}, Python {platform.python_version()}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m validation", description=__doc__)
    parser.add_argument("study", nargs="*", choices=[*STUDIES, HONESTY, ROBUSTNESS, []], help="default: all")
    parser.add_argument("--again", action="store_true", help="run also what has a result")
    parser.add_argument("--problem", action="append", default=[], choices=list(honesty.PROBLEMS))
    parser.add_argument("--method", action="append", default=[], choices=list(honesty.METHODS))
    parser.add_argument("--sets", type=int, help="data sets of each cell of the honesty matrix")
    parser.add_argument("--seed", type=int, default=0, help="of the honesty matrix: which data sets")
    parser.add_argument("--fuzz", type=float, default=robustness.FUZZ, help="seconds for each reader and parser")
    parser.add_argument("--kills", type=int, default=robustness.KILLS, help="commands that are killed")
    parser.add_argument("--cluster", metavar="ADDRESS", help="local:4, or the address of a Dask scheduler")
    arguments = parser.parse_args()
    with opened(arguments.cluster) as cluster:
        run_studies(arguments, cluster)


def run_studies(arguments: argparse.Namespace, cluster: ps.Cluster | None) -> None:
    """Run what was asked for, and write the pages."""
    RESULTS.mkdir(exist_ok=True)
    chosen = arguments.study or [*STUDIES, HONESTY, ROBUSTNESS]
    for name in (name for name in chosen if name in STUDIES):
        path = RESULTS / f"{name}.json"
        if path.exists() and not arguments.again:
            continue
        began = time.time()
        result = STUDIES[name](RESULTS, cluster=cluster) if name in DIVIDED else STUDIES[name](RESULTS)
        facts = {
            "result": result,
            "date": time.strftime("%Y-%m-%d"),
            "version": ps.__version__,
            "machine": machine(),
            "seconds": time.time() - began,
        }
        path.write_text(json.dumps(facts, indent=1))
        page.write(page.read(RESULTS))
    if set(chosen) & set(STUDIES):
        page.write(page.read(RESULTS))
    if HONESTY in chosen:
        folder = RESULTS / HONESTY
        chosen_cells = (arguments.problem, arguments.method, arguments.sets, arguments.seed, arguments.again)
        honesty.run(folder, *chosen_cells, cluster=cluster)
        honesty_page.write(folder, machine())
    if ROBUSTNESS in chosen:
        found = robustness.run(arguments.fuzz, arguments.kills)
        robustness.write_page(found, f"--fuzz {arguments.fuzz:g} --kills {arguments.kills}", machine())
    print(f"results are in {page.PAGE} and {honesty_page.PAGE}")


if __name__ == "__main__":
    main()
