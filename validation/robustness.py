"""Malformed files, damaged results, kills and fuzzing, counted: `python -m validation robustness`.

Writes docs/validation-robustness.md.  Inputs are those of `tests/robustness/inputs.py`, with seeds of their own;
`--fuzz SECONDS` sets how long each reader and parser is fuzzed by hypothesis, ten minutes by default.
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from itertools import count, islice
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
from hypothesis import strategies

import probsysid as ps
from tests.damage import damaged_copies
from tests.posterior.tiny import MODEL, PRIORS, tiny_with_model
from tests.robustness.inputs import KINDS, outcome
from tests.study.small import write_study

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "validation-robustness.md"

MALFORMED, DAMAGED, KILLS, FUZZ = 200, 200, 100, 600.0

STREAM = """
import sys, numpy as np, probsysid as ps
from validation.robustness import identifier
path = sys.argv[1]
online = ps.Identifier.load(path) if __import__("os").path.exists(path) else identifier()
print("ready", flush=True)
while online.samples < 200:
    online.update({"u": 1.0}, {"level": np.tanh(0.1 * online.samples)})
    online.save(path)
"""

SAVE = """
import sys
from tests.posterior.tiny import tiny_with_model
posterior = tiny_with_model()
print("ready", flush=True)
while True:
    posterior.save(sys.argv[1])
"""


def identifier() -> ps.Identifier:
    return ps.Identifier(
        MODEL, PRIORS, {"level": 0.1}, {"h": 0.0}, 0.1, solver=ps.Solver(substeps=1), sampler=ps.Sampler(particles=64)
    )


def malformed(kind: str, number: int, folder: Path) -> dict[str, int]:
    """Outcomes of malformed inputs of one kind."""
    drawn = islice(KINDS[kind][0](random.Random(f"validation of {kind}")), number)
    return dict(Counter(outcome(kind, folder, content) for content in drawn))


def damaged_results(kind: str, number: int, folder: Path) -> dict[str, int]:
    """Outcomes of damaged files that the package itself wrote."""
    path = folder / ("p.nc" if kind == "posterior" else "run.npz")
    load: Callable[[Path], Any] = ps.Posterior.load if kind == "posterior" else ps.Identifier.load
    (tiny_with_model() if kind == "posterior" else identifier()).save(path)
    found: Counter[str] = Counter()
    for _, content in damaged_copies(path.read_bytes(), number, seed=1):
        path.write_bytes(content)
        try:
            load(path)
            found["loaded"] += 1
        except ps.InputError:
            found["refused"] += 1
        except Exception as error:
            found[type(error).__name__] += 1
    return dict(found)


def killed(what: str, number: int, folder: Path) -> dict[str, int]:
    """A command ended at random moments, by SIGKILL, SIGTERM and SIGINT in turn; is everything whole after each?"""
    folder = folder / f"killed-{what}"
    folder.mkdir()
    study = write_study(folder)
    command, whole = _victim(what, study, folder)
    moments, found = random.Random(what), Counter[str]()
    for k in range(number):
        child = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        time.sleep(moments.uniform(0.5, 12.0))
        child.send_signal((signal.SIGKILL, signal.SIGTERM, signal.SIGINT)[k % 3])
        try:
            _, said = child.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            child.kill()
            found["went on"] += 1
            continue
        quiet = "Traceback" not in said or what in ("save", "stream")  # these are scripts, for which it is usual
        found["whole" if quiet and _holds(whole) else "broken"] += 1
    return dict(found)


def _holds(whole: Callable[[], bool]) -> bool:
    try:
        return whole()
    except (ps.InputError, OSError):
        return False


def _victim(what: str, study: Path, folder: Path) -> tuple[list[str], Callable[[], bool]]:
    """A command, and what tells whether its files are whole."""
    out = folder / "lag-results"
    base = [sys.executable, "-m", "probsysid"]
    if what == "fit":
        return [*base, "fit", str(study), "--quiet", "--overwrite"], lambda: not out.exists() or _complete(out)
    if what == "report":
        subprocess.run([*base, "fit", str(study), "--quiet"], cwd=ROOT, check=True)
        return [*base, "report", str(out)], lambda: _complete(out)
    path = folder / ("p.nc" if what == "save" else "run.npz")
    load: Callable[[Path], Any] = ps.Posterior.load if what == "save" else ps.Identifier.load
    return [
        sys.executable,
        "-c",
        SAVE if what == "save" else STREAM,
        str(path),
    ], lambda: not path.exists() or bool(load(path))


def _complete(out: Path) -> bool:
    page = (out / "report.html").read_text(encoding="utf-8")
    return page.rstrip().endswith("</html>") and bool(ps.Posterior.load(out / "posterior.nc"))


def fuzzed(kind: str, seconds: float, folder: Path) -> dict[str, int]:
    """Outcomes of inputs that hypothesis makes of a malformed one, and of bytes or texts of its own."""
    found: Counter[str] = Counter()
    corpus = list(islice(KINDS[kind][0](random.Random(kind)), 50))
    parsed = kind in ("equation", "prior", "stored model")

    def attempt(start: bytes, cut: int, more: bytes) -> None:
        content = start[:cut] + more + start[cut:]
        if parsed:
            content = content.decode(errors="replace").encode()
        result = outcome(kind, folder, content) if kind != "stored model" or _is_json(content) else "refused"
        found[result] += 1

    parts = strategies.sampled_from(corpus), strategies.integers(0, 4000), strategies.binary(max_size=40)
    checks = list(hypothesis.HealthCheck)
    settings = hypothesis.settings(max_examples=200, deadline=None, database=None, suppress_health_check=checks)
    began = time.monotonic()
    for seed in count():
        hypothesis.seed(seed)(settings(hypothesis.given(*parts)(attempt)))()
        if time.monotonic() - began > seconds:
            return dict(found)
    raise AssertionError


def _is_json(content: bytes) -> bool:
    try:
        return isinstance(json.loads(content), dict)
    except ValueError:
        return False


def run(fuzz: float = FUZZ, kills: int = KILLS, number: int = MALFORMED) -> dict[str, dict[str, dict[str, int]]]:
    """Everything, by section and kind."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        return {
            "malformed": {kind: malformed(kind, number, folder) for kind in KINDS},
            "damaged": {kind: damaged_results(kind, DAMAGED, folder) for kind in ("posterior", "identifier")},
            "killed": {what: killed(what, -(-kills // 4), folder) for what in ("save", "stream", "report", "fit")},
            "fuzzed": {kind: fuzzed(kind, fuzz, folder) for kind in KINDS},
        }


TEXTS = {
    "malformed": "Malformed inputs, refused in one sentence or still making sense (`tests/robustness/inputs.py`)",
    "damaged": "Damaged files that the package wrote: flipped bits, cut, zeroed, reversed, inserted, appended",
    "killed": "Commands ended by SIGKILL, SIGTERM, SIGINT at random moments; `whole`: files complete, no traceback",
    "fuzzed": "Inputs made by hypothesis",
}


def write_page(found: dict[str, dict[str, dict[str, int]]], options: str, machine: str, path: Path = PAGE) -> None:
    """The counts as a page."""
    lines = ["# Validation of robustness", ""]
    lines += ["What is read is refused in one sentence if it is wrong, and nothing is left half written. Anything but"]
    lines += ["`refused`, `read` and `whole` in these tables would be a defect.", ""]
    for section, kinds in found.items():
        lines += [f"## {TEXTS[section]}", "", "| | number | outcomes |", "|---|---|---|"]
        for kind, counts in kinds.items():
            listed = ", ".join(f"{name} {number}" for name, number in sorted(counts.items()))
            lines.append(f"| {kind} | {sum(counts.values())} | {listed} |")
        lines.append("")
    lines += [f"Written by `python -m validation robustness {options}` on {time.strftime('%Y-%m-%d')} ({machine},"]
    lines += [f"NumPy {np.__version__}). `make test` runs 2600 other inputs of the same kinds."]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
