"""Damage on a stream: the delay of the alarm, its false ones, and whether the right constant is named.

python -m validation.live_changes [--sets 6] [--only SEED]

Three masses in a row, each held to the one before it by a spring and a damper, with a random force on the last and
their positions measured.  In half of the streams the middle spring loses 5 % of its stiffness at a known time.  The
alarm's threshold is varied on the same whitened residuals; which constant is named is asked at the strictest one.
Results of single streams are kept in `validation/results/live_changes`; the last line prints the table of the page.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import expm

import probsysid as ps
from probsysid import dist
from probsysid.live.change import Detector
from probsysid.live.settings import LiveOptions
from probsysid.live.track import Track

DT = 0.05
SAMPLES, CHANGE = 1200, 800
LOSS = 0.05
NOISE = 0.005
TRUTH = {"k1": 12.0, "k2": 8.0, "k3": 10.0, "c": 0.3}
INTERVALS = (1e3, 1e4, 1e5, 1e6)
"""Mean samples between false alarms, at least."""

RESULTS = Path(__file__).parent / "results" / "live_changes"


def forces(s: Any, p: Any) -> tuple[Any, Any, Any]:
    """Of each spring and damper: pulls a mass towards the one before it."""
    first = p.k1 * s.x1 + p.c * s.dx1
    second = p.k2 * (s.x2 - s.x1) + p.c * (s.dx2 - s.dx1)
    third = p.k3 * (s.x3 - s.x2) + p.c * (s.dx3 - s.dx2)
    return first, second, third


def dynamics(s: Any, u: Any, p: Any) -> dict[str, Any]:
    first, second, third = forces(s, p)
    return {"x1": second - first, "x2": third - second, "x3": u.force - third}


MODEL = ps.Model(
    {"x1": 2, "x2": 2, "x3": 2},
    dynamics,
    lambda s, u, p: {"y1": s.x1, "y2": s.x2, "y3": s.x3},
    units={"k1": "N/m", "k2": "N/m", "k3": "N/m", "c": "N s/m"},
    name="three masses",
)


def stream(seed: int, damaged: bool) -> np.ndarray:
    """Rows of force and positions: the exact response to a held force, and noise."""
    random = np.random.default_rng([seed, int(damaged)])
    force = np.repeat(2 * random.standard_normal(SAMPLES // 4 + 1), 4)[:SAMPLES]
    state, rows = np.zeros(6), np.zeros((SAMPLES, 4))
    steps = {k2: step(k2) for k2 in (TRUTH["k2"], (1 - LOSS) * TRUTH["k2"])}
    for k in range(SAMPLES):
        rows[k] = force[k], *state[:3]
        changed = damaged and k >= CHANGE
        matrix, gain = steps[(1 - LOSS) * TRUTH["k2"] if changed else TRUTH["k2"]]
        state = matrix @ state + gain * force[k]
    rows[:, 1:] += NOISE * random.standard_normal((SAMPLES, 3))
    return rows


def step(k2: float) -> tuple[np.ndarray, np.ndarray]:
    """The exact transition over a sampling interval."""
    k1, k3, c = TRUTH["k1"], TRUTH["k3"], TRUTH["c"]
    stiffness = np.array([[k1 + k2, -k2, 0], [-k2, k2 + k3, -k3], [0, -k3, k3]])
    damping = np.array([[2 * c, -c, 0], [-c, 2 * c, -c], [0, -c, c]])
    rate = np.zeros((7, 7))
    rate[:3, 3:6] = np.eye(3)
    rate[3:6, :3], rate[3:6, 3:6], rate[5, 6] = -stiffness, -damping, 1
    whole = expm(rate * DT)
    return whole[:6, :6], whole[:6, 6]


def follow(rows: np.ndarray) -> dict[str, Any]:
    """The whitened residuals of a stream, and the alarms on it."""
    arguments = {
        "model": MODEL,
        "priors": {name: dist.LogNormal(np.log(value), 0.3) for name, value in TRUTH.items()},
        "noise": dict.fromkeys(MODEL.output_names, NOISE),
        "initial": {name: dist.Normal(0, 0.01) for name in MODEL.physical_names},
        "dt": DT,
        "intersample": "zoh",
        "solver": ps.Solver(smoothness=2, substeps=2),
        "sampler": ps.Sampler(particles=64),
    }
    track = Track("three masses", arguments, LiveOptions(false_alarms=INTERVALS[-1] * DT), lambda k: k * DT)
    whites, alarms, diagnoses = [], [], []
    for first in range(0, SAMPLES, 20):
        alarm = track.update(rows[first : first + 20])
        assert not track.failure, track.failure
        whites += [seen.white for seen in track.seen]
        alarms += [] if alarm is None else [[alarm.sample, round(alarm.onset / DT)]]
        if (found := track.diagnosis()) is not None:
            diagnoses.append([found["text"], [[s["name"], s["after"] / s["before"]] for s in found["suspects"][:2]]])
    return {"whites": np.concatenate(whites).tolist(), "alarms": alarms, "diagnoses": diagnoses}


def first_alarm(whites: np.ndarray, interval: float, start: int) -> int | None:
    """The sample of the first alarm after `start`, of a detector that has watched since sample 100."""
    detector = Detector(whites.shape[1], interval)
    for k in range(100, len(whites)):
        for output in range(whites.shape[1]):
            if detector.add(k + 1, output, whites[k, output]):
                if k + 1 >= start:
                    return k + 1
                detector.reset(k + 1)
    return None


def false_alarms(whites: np.ndarray, interval: float) -> int:
    detector, count = Detector(whites.shape[1], interval), 0
    for k in range(100, len(whites)):
        for output in range(whites.shape[1]):
            if detector.add(k + 1, output, whites[k, output]):
                count += 1
                detector.reset(k + 1)
    return count


def table(found: dict[str, dict[str, Any]]) -> str:
    """The page's table, of all streams there are."""
    sound = [np.array(f["whites"]) for key, f in found.items() if key.startswith("sound")]
    damaged = {key: f for key, f in found.items() if key.startswith("damaged")}
    lines = [
        "| samples between false alarms, at least | false alarms | expected, at most "
        "| damage found | delay: median | worst |",
        "|---|---|---|---|---|---|",
    ]
    watched = sum(len(w) - 100 for w in sound)
    for interval in INTERVALS:
        count = sum(false_alarms(w, interval) for w in sound)
        firsts = [first_alarm(np.array(f["whites"]), interval, CHANGE) for f in damaged.values()]
        delays = [k - CHANGE for k in firsts if k is not None]
        times = f"{np.median(delays) * DT:.2f} s | {max(delays) * DT:.2f} s" if delays else "- | -"
        seen = f"{len(delays)} of {len(damaged)}"
        lines.append(f"| {interval:.0e} | {count} in {watched} | {watched / interval:.2g} | {seen} | {times} |")
    named = [f["diagnoses"][0][1][0] for f in damaged.values() if f["diagnoses"]]
    right = [ratio for name, ratio in named if name == "k2"]
    lines.append("")
    lines.append(
        f"Most suspicious {len(right)} of {len(named)} times: `k2`, changed by "
        + ", ".join(f"{100 * (ratio - 1):.1f} %" for ratio in right)
    )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=6, help="streams of each kind")
    parser.add_argument("--only", type=int, help="one seed")
    options = parser.parse_args()
    RESULTS.mkdir(parents=True, exist_ok=True)
    for seed in range(options.sets) if options.only is None else [options.only]:
        for kind in ("damaged", "sound"):
            path = RESULTS / f"{kind}-{seed}.json"
            if not path.exists():
                path.write_text(json.dumps(follow(stream(seed, kind == "damaged"))))
                print(path.name, flush=True)
    found = {path.stem: json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))}
    print(table(found))


if __name__ == "__main__":
    main()
