"""docs/validation-inputs.md from stored results: a section is rewritten where there are results, others stay."""

import json
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

PAGE = Path(__file__).resolve().parents[2] / "docs" / "validation-inputs.md"

TITLE = """# Unknown inputs and drifts against the truth

Forces and rates that are known, and were not given to the inference. Written by
`python -m validation.unknown_inputs page` from results of single data sets; each section names the command that makes
them. Errors are mean square errors in percent of the variance of what is inferred (normalised mean square errors);
coverage is the share of samples in the 90 % band.
"""

Results = list[dict[str, Any]]


def write(folder: Path, path: Path = PAGE) -> None:
    """Rewrite the sections whose rows have results."""
    sections = published(path.read_text()) if path.exists() else {}
    for name, (rows, section) in SECTIONS.items():
        found = {row: read(folder, row) for row in rows}
        if all(found.values()):
            sections[name] = f"## {name}\n\n{section(found).rstrip()}\n\n{_how(found)}\n"
    path.write_text("\n".join([TITLE, *(sections[name] for name in SECTIONS if name in sections)]))
    print(f"wrote {path}")


def published(text: str) -> dict[str, str]:
    """Sections of a page by their titles."""
    parts = re.split(r"^(?=## )", text, flags=re.MULTILINE)[1:]
    return {part.splitlines()[0].removeprefix("## "): f"{part.rstrip()}\n" for part in parts}


def read(folder: Path, row: str) -> Results:
    """Results of a row, by seed."""
    paths = [path for path in folder.glob(f"{row}-*.json") if path.stem.removeprefix(f"{row}-").isdecimal()]
    return sorted((json.loads(path.read_text()) for path in paths), key=lambda item: int(item["seed"]))


def _how(found: dict[str, Results]) -> str:
    facts = [item for results in found.values() for item in results]
    commands = ", ".join(f"`python -m validation.unknown_inputs {row} {_seeds(found[row])}`" for row in found)
    return f"*{commands}; {max(item['date'] for item in facts)}, probsysid {facts[0]['version']}.*"


def _seeds(results: Results) -> str:
    """As a command takes them."""
    seeds = [int(item["seed"]) for item in results]
    whole = len(seeds) > 3 and seeds == list(range(seeds[0], seeds[-1] + 1))
    return f"$(seq {seeds[0]} {seeds[-1]})" if whole else " ".join(map(str, seeds))


def _table(header: list[str], rows: list[list[Any]]) -> str:
    def cell(value: Any) -> str:
        return f"{value:.3g}" if isinstance(value, float) else str(value)

    lines = [header, ["---"] * len(header), *([cell(value) for value in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _held(results: Results) -> tuple[int, int]:
    """How many 90 % intervals hold the truth, of how many."""
    inside = [value for item in results for value in item.get("held", {}).values()]
    return sum(inside), len(inside)


def _share(results: Results) -> str:
    inside, of = _held(results)
    return f"{inside} of {of} ({100 * inside / of:.0f} %)" if of else ""


def _mean(results: Results, key: str) -> float:
    return float(np.mean([item[key] for item in results]))


def _prose(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), 120, break_long_words=False, break_on_hyphens=False) + "\n\n"


def _linear(found: dict[str, Results]) -> str:
    results = found["linear"]
    rows = [[name, f"{sum(r['held'][name] for r in results)} of {len(results)}"] for name in results[0]["held"]]
    before = _prose(
        """x'' = f - c x' - k x, the force f a Matern process with nu = 3/2 that is not measured; 250 positions with a
        noise of 0.01. Constants and hyperparameters are drawn from their priors for every data set, so that 90 % of the
        90 % intervals should hold them. That likelihood and smoothed force are exact is tested
        (`tests/odefilter/test_unknown_inputs.py`)."""
    )
    after = _prose(
        f"""Force: error {_mean(results, "nmse"):.2g} %, coverage {_mean(results, "coverage"):.0f} %.
        {sum(r["trusted"] for r in results)} of {len(results)} runs are called trusted;
        {_mean(results, "seconds"):.0f} s of processor time each."""
    )
    return before + _table(["quantity", "in its 90 % interval"], [*rows, ["all", _share(results)]]) + "\n" + after


def _duffing(found: dict[str, Results]) -> str:
    rows = []
    words = ("given", "inferred", "given, acceleration measured too", "inferred, acceleration measured too")
    for row, word in zip(DUFFING, words, strict=True):
        r = found[row]
        errors = [f"{_mean(r, key):.2g} (largest {max(item[key] for item in r):.2g})" for key in ("x", "dx", "nmse")]
        rows.append([word, len(r), *errors, _mean(r, "coverage"), _share(r), _mean(r, "seconds")])
    head = ["constants", "data sets", "x [%]", "x' [%]", "force [%]", "coverage [%]", "in their 90 % interval", "s"]
    text = _prose(
        """After Rogers, Worden and Cross (2020), who report errors below 0.5 % for states and force of such an
        oscillator with its constants given: x'' = f - 0.2 x' - x - 0.5 x^3, the force a Matern process with nu = 1/2,
        a standard deviation of 1 and a correlation length of 5 s; 400 positions, 10 per second, with a noise of 0.002.
        Hyperparameters are inferred. The error of the force is what such data leave open, as its coverage shows: noise
        hides how a rough force goes up and down between a few samples, and constants that are inferred share what is
        slow in it. In the last two rows an accelerometer with a noise of 0.05, 5 % of the force, is read as well."""
    )
    return text + _table(head, rows)


def _measured(found: dict[str, Results]) -> str:
    rows = []
    for row, results in found.items():
        for r in results:
            evidence = f"{r['log evidence']:.1f} ± {r['its error']:.1f}" if "log evidence" in r else ""
            name = (
                row.split("-", 1)[1].replace("matern-1-2", "Matern, nu = 1/2").replace("matern-3-2", "Matern, nu = 3/2")
            )
            name = name.replace("kalman", "Kalman filter, tuned to the true force")
            rows.append([name, r["seed"], r["nmse"], r["coverage"], evidence, r["seconds"]])
    return _table(["kernel", "seed", "force [%]", "coverage [%]", "log evidence", "s"], rows)


def _silverbox(found: dict[str, Results]) -> str:
    text = _prose(
        """Constants from 1024 samples with their input; then 600 samples of another realisation of the multisine
        without it. Beside it an augmented Kalman filter (position, velocity, force) with the posterior means of the
        constants and a random walk as force: its rate and its noise are those with the least error of the force,
        which needs the true force."""
    )
    return text + _measured(found)


def _emps(found: dict[str, Results]) -> str:
    text = (
        "Constants from 4000 samples with their force; then the following 3000 without it, and the same Kalman filter."
    )
    return _prose(text) + _measured(found)


def _rates(found: dict[str, Results]) -> str:
    names = {"lotka-volterra": "growth of prey", "sird": "contact rate"}
    rows = [
        [names[row], item["seed"], item["error"], item["coverage"], item["verdict"], _share([item]), item["seconds"]]
        for row, results in found.items()
        for item in results
    ]
    text = _prose(
        """After Schmidt, Kraemer and Hennig (2021), who infer such a rate in one filter pass; here the constants and
        the hyperparameters are inferred too. Lotka-Volterra: the growth of prey varies with a period of 60 samples by a
        factor of 2.2, noise 20 % on both populations. SIRD: daily counts of infected, recovered and dead of a
        stochastic simulation with one million people, reported with an error of 5 %, below 20 not at all; the contact
        rate falls and rises again."""
    )
    return text + _table(["rate", "seed", "error [%]", "coverage [%]", "verdict", "constants in interval", "s"], rows)


def _drift(found: dict[str, Results]) -> str:
    rows = []
    for row, word in (("falling", "falls by 10 % at 42 s"), ("constant", "constant")):
        for item in found[row]:
            first, time, last = item["time"]
            least, size, most = (100 * value for value in item["size"])
            drifts = item["verdict"] == "drifts"
            rows.append(
                [
                    word,
                    item["seed"],
                    item["verdict"],
                    f"{item['log odds of a constant']:.1f}",
                    f"{item['log evidence of a constant over a drift']:.1f} ± {item['its error']:.1f}",
                    f"{time:.1f} ({first:.1f} to {last:.1f})" if drifts else "",
                    f"{size:.1f} ({least:.1f} to {most:.1f})" if drifts else "",
                    item["in its band"],
                ]
            )
    head = [
        "stiffness",
        "seed",
        "verdict",
        "log odds of a constant",
        "by two runs",
        "time [s]",
        "by [%]",
        "in band [%]",
    ]
    text = _prose(
        """x'' = u - c x' - k x with a measured force u, 400 samples,
        `drifts={"k": RandomWalk(rate=HalfNormal(0.05))}`. The odds are those of the verdict, from the posterior of the
        rate alone; beside them the difference of evidences of two runs, without and with the drift. The stiffness falls
        between 40 and 44 s. Times and sizes have 90 % intervals."""
    )
    return text + _table(head, rows)


def _cost(found: dict[str, Results]) -> str:
    item = found["cost"][0]
    rows = [
        [name, row["steps"], row["sweeps"], row["first"], row["seconds"], row["microseconds"]]
        for name, row in item["rows"].items()
    ]
    text = _prose(
        f"""The linear oscillator, {item["samples"]} samples, 256 particles, one record: processor time of `identify`,
        the first time and with its programs compiled; the last column is the second divided by sweeps, samples and
        particles."""
    )
    head = ["force", "steps per sample", "sweeps", "first [s]", "again [s]", "µs per sample and particle"]
    return text + _table(head, rows)


DUFFING = ("duffing-fixed", "duffing-inferred", "duffing-accelerometer-fixed", "duffing-accelerometer")
SILVERBOX = ("silverbox-matern-1-2", "silverbox-matern-3-2", "silverbox-quasi-periodic", "silverbox-kalman")
EMPS = ("emps-matern-1-2", "emps-matern-3-2", "emps-kalman")

SECTIONS: dict[str, tuple[tuple[str, ...], Callable[[dict[str, Results]], str]]] = {
    "A linear oscillator": (("linear",), _linear),
    "A Duffing oscillator": (DUFFING, _duffing),
    "Silverbox, its input hidden": (SILVERBOX, _silverbox),
    "EMPS, its force hidden": (EMPS, _emps),
    "Rates that vary": (("lotka-volterra", "sird"), _rates),
    "A stiffness that falls, and one that does not": (("falling", "constant"), _drift),
    "Cost": (("cost",), _cost),
}
