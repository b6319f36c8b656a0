"""Unknown inputs and drifts against the truth: each row of the page by one command.

    python -m validation.unknown_inputs ROW [SEED ...]      # a minute or a few for each seed
    python -m validation.unknown_inputs page                # docs/validation-inputs.md from what was stored

Rows: linear, duffing-fixed, duffing-inferred, silverbox, emps, lotka-volterra, sird, falling, constant, cost.  Results
are kept in `validation/results/inputs`; a seed that has one is left out.
"""

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import probsysid as ps
from validation.inputs import measured, page, simulated

RESULTS = Path(__file__).parent / "results" / "inputs"

ROWS: dict[str, Callable[[int], dict[str, Any]]] = {
    "linear": simulated.linear,
    "duffing-fixed": partial(simulated.duffing, constants="fixed"),
    "duffing-inferred": simulated.duffing,
    "silverbox": measured.silverbox_force,
    "emps": measured.emps_force,
    "lotka-volterra": simulated.lotka_volterra,
    "sird": simulated.sird,
    "falling": simulated.falling,
    "constant": partial(simulated.falling, loss=0.0),
    "cost": simulated.cost,
}


def main() -> None:
    name, *seeds = sys.argv[1:] or ["page"]
    if name != "page" and name not in ROWS:
        raise SystemExit(f"there is no row {name!r}; there are: {', '.join(ROWS)}, page.")
    RESULTS.mkdir(parents=True, exist_ok=True)
    for seed in map(int, seeds or ["0"]) if name in ROWS else ():
        path = RESULTS / f"{name}-{seed}.json"
        if not path.exists():
            facts = {"date": time.strftime("%Y-%m-%d"), "version": ps.__version__, "seed": seed}
            path.write_text(json.dumps(facts | ROWS[name](seed), indent=1))
        print(path.name, path.read_text(), flush=True)
    if name == "page":
        page.write(RESULTS)


if __name__ == "__main__":
    main()
