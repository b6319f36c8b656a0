"""Write docs/validation-sampler.md from the results of the studies in validation/results."""

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "validation-sampler.md"
FIGURE = ROOT / "docs" / "figures" / "sbc.png"

TITLE = """# Validation of the sampler

Written by `python -m validation`, which runs the studies that have no result yet; `python -m validation NAME --again`
repeats one.  Each section names its command, the day, the machine and the time it took.  Results of single data sets
are kept in `validation/results`, so that an interrupted study continues where it stopped.
"""


def write(results: dict[str, dict[str, Any]], path: Path = PAGE) -> None:
    """Rewrite the sections whose study has a result; the others stay as published, perhaps from another machine."""
    sections = published(path.read_text()) if path.exists() else {}
    for name, given in results.items():
        sections[name] = f"{SECTIONS[name](given['result'])}\n{_how(name, given)}"
    path.write_text("\n".join([TITLE, *(sections[name] for name in SECTIONS if name in sections)]))


def published(text: str) -> dict[str, str]:
    """Sections of a page by their study, which the last line of each names."""
    parts = re.split(r"^(?=## )", text, flags=re.MULTILINE)[1:]
    return {name: f"{part.rstrip()}\n" for part in parts for name in SECTIONS if f"*{_command(name)}," in part}


def _command(name: str) -> str:
    return f"`python -m validation {name}`"


def _how(name: str, given: dict[str, Any]) -> str:
    return (
        f"*{_command(name)}, {given['date']}, probsysid {given['version']}, {given['machine']}, "
        f"{given['seconds'] / 60:.0f} min.*\n"
    )


def _table(header: list[str], rows: list[list[Any]]) -> str:
    def cell(value: Any) -> str:
        return f"{value:.3g}" if isinstance(value, float) else str(value)

    lines = [header, ["---"] * len(header), *([cell(value) for value in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _calibration(result: dict[str, Any]) -> str:
    rows = [
        [name, result["chi-square"][name], result["Kolmogorov-Smirnov"][name], result["rms z"].get(name, "")]
        for name in result["chi-square"]
    ]
    return (
        "## Simulation-based calibration\n\n"
        f"True values drawn from the prior, {result['sets']} data sets of 100 samples of a Duffing oscillator: the "
        "share of each\nposterior below the true value should be uniformly distributed.  Acceptance "
        f"{result['acceptance']:.0%}, {result['sweeps']:.0f} sweeps per run.\n\n"
        + _table(["quantity", "p, chi-square", "p, Kolmogorov-Smirnov", "rms of (mean - truth) / sd"], rows)
        + "\n![Rank histograms](figures/sbc.png)\n"
    )


def _nuts(result: dict[str, Any]) -> str:
    rows = [
        [name, result["mean"][name], result["sd"][name], result["effective draws"][name]] for name in result["mean"]
    ]
    return (
        "## Against NUTS\n\n"
        "One Duffing record of 300 samples; numpyro's NUTS with a Runge-Kutta likelihood of 8 steps\n"
        f"per sample, against 8192 particles (effective {result['ess']:.0f}).\n\n"
        + _table(["quantity", "difference of means / sd", "ratio of sd", "effective draws of NUTS"], rows)
    )


def _lotka_volterra(result: dict[str, Any]) -> str:
    if "missing" in result:
        return f"## posteriordb's Lotka-Volterra model\n\nNot run: {result['missing']}.\n"
    rows = [[name, result["mean"][name], result["sd"][name]] for name in result["mean"]]
    return (
        "## posteriordb's Lotka-Volterra model\n\n"
        f"4096 particles, {result['sweeps']:.0f} sweeps.  Log evidence {result['log evidence']:.3f} +- "
        f"{result['log evidence error']:.3f}; the reference is -146.684.\n\n"
        + _table(["quantity", "difference of means / sd", "ratio of sd"], rows)
    )


def _kills(result: dict[str, Any]) -> str:
    return (
        "## Killed and resumed\n\n"
        f"{result['kills']} SIGKILLs at random moments, {result['checkpoints in the middle of a run']} of them\n"
        f"with a checkpoint in the middle of the run; results identical to the last bit: {result['identical']};\n"
        f"checkpoints never behind an earlier one: {result['checkpoints never go back']};\n"
        f"unfinished files left behind: {result['unfinished files left behind']}.\n"
    )


def _bias(result: dict[str, Any]) -> str:
    rows = [
        [
            name,
            r["mean"],
            r["one standard error of the mean"],
            r["variance"],
            r["one standard error of the variance"],
            r["evidence"],
            r["true over reported error"],
        ]
        for name, r in result.items()
    ]
    header = ["problem, sampler", "mean: worst bias / sd", "+-", "variance: mean relative bias", "+-"]
    return (
        "## Biases and the reported evidence error, on conjugate problems\n\n"
        + _table([*header, "evidence / exact", "true over reported evidence error"], rows)
        + "\nIslands times particles; 200 runs (mixture 100).  The largest of some 50 unbiased\n"
        "estimates is expected to be off by 2 to 3 standard errors.\n"
    )


SECTIONS = {
    "calibration": _calibration,
    "nuts": _nuts,
    "lotka-volterra": _lotka_volterra,
    "kills": _kills,
    "bias": _bias,
}


def read(folder: Path) -> dict[str, dict[str, Any]]:
    """Results of studies that have been run."""
    return {name: json.loads(path.read_text()) for name in SECTIONS if (path := folder / f"{name}.json").exists()}
