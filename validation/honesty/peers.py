"""Fenrir and DALTON beside ours in the honesty matrix: rms z, coverage, width and cost.

python -m validation.honesty.peers [--problem NAME] [--method NAME] [--sets 20] [--folder FOLDER]

Runs what has no result yet, then prints one table per system.  Data sets, priors and sampler are those of
`python -m validation honesty`, whose results for `plain` and `gold` it shares.
"""

import argparse
from pathlib import Path

from validation.honesty import study
from validation.honesty.methods import PEERS
from validation.honesty.problems import PROBLEMS
from validation.honesty.study import Cell, cells
from validation.honesty.summary import Row, summarise

FOLDER = Path(__file__).resolve().parents[1] / "results" / "honesty"

BESIDE = ("rk4", "plain", "fixed", *PEERS, "gold")
"""Those that take the same numbers of steps, and what widths are relative to."""

HEADER = ("likelihood", "steps", "sets", "rms z", "50 %", "90 %", "width", "off gold", "CPU", "sweeps")


def line(row: Row) -> str:
    """A row of the table, as on the page of the matrix."""
    sets = f"{row.sets} ({row.failed})" if row.failed else row.sets
    columns = [row.cell.method, row.cell.steps or "", sets, row.rms.text, *(row.covered[c].percent for c in (0.5, 0.9))]
    columns += [row.width.text, row.shift.text, f"{row.seconds.value:.1f} s", f"{row.sweeps:.0f}"]
    return f"| {' | '.join(map(str, columns))} |"


def tables(folder: Path, chosen: list[Cell]) -> str:
    """One per system."""
    parts = []
    for problem in dict.fromkeys(cell.problem.name for cell in chosen):
        found = [summarise(folder, cell) for cell in chosen if cell.problem.name == problem]
        rows = [line(row) for row in found if row is not None]
        parts += [f"### {problem}\n", f"| {' | '.join(HEADER)} |", f"|{' --- |' * len(HEADER)}", *rows, ""]
    return "\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problem", action="append", default=[], choices=list(PROBLEMS))
    parser.add_argument("--method", action="append", default=[], choices=BESIDE)
    parser.add_argument("--sets", type=int, default=study.SETS)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    options = parser.parse_args()
    methods = options.method or BESIDE
    if options.sets:
        study.run(options.folder, options.problem, methods, options.sets)
    print(tables(options.folder, cells(options.problem, methods)))


if __name__ == "__main__":
    main()
