"""Unknown inputs and drifts against the truth: each row of the page by one command.

    python -m validation.unknown_inputs ROW [SEED ...]      # a minute or a few for each seed
    python -m validation.unknown_inputs page                # docs/validation-inputs.md from what was stored

Rows: linear; duffing-fixed, duffing-inferred, duffing-accelerometer-fixed, duffing-accelerometer;
silverbox-matern-1-2, silverbox-matern-3-2, silverbox-quasi-periodic, silverbox-kalman; emps-matern-1-2,
emps-matern-3-2, emps-kalman; lotka-volterra, sird; falling, constant; cost.  Results are kept in
`validation/results/inputs`; a seed that has one is left out.  Those of the Silverbox and EMPS need the data
(PROBSYSID_DATA), and begin with a run with the input, which is kept.
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
    "duffing-accelerometer-fixed": partial(simulated.duffing, constants="fixed", accelerometer=0.05),
    "duffing-accelerometer": partial(simulated.duffing, accelerometer=0.05),
    **{
        f"silverbox-{name}": partial(measured.silverbox_force, kernel=kernel)
        for name, kernel in measured.SILVERBOX_KERNELS.items()
    },
    "silverbox-kalman": measured.silverbox_kalman,
    **{f"emps-{name}": partial(measured.emps_force, kernel=kernel) for name, kernel in measured.EMPS_KERNELS.items()},
    "emps-kalman": measured.emps_kalman,
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
