"""What pages are told: rows of samples, rows of numbers, and the words at the head.

Samples, states and constants are those of the first model; evidence and alarms are those of all.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from probsysid.live.alignment import Rows
from probsysid.live.track import Track

if TYPE_CHECKING:
    from probsysid.live.engine import Engine

BINS = 24
"""Of the histogram of a quantity."""

WIDTH = 1.645
"""Standard deviations to either side that hold 90 % of a Gaussian."""

BUSY = 0.95
"""Load beyond which a growing lag means that the machine cannot keep up."""

COUNTED = ("q05", "q50", "q95")


def sample_columns(track: Track) -> tuple[str, ...]:
    """Names of the columns of samples."""
    model = track.model
    outputs = [f"{kind}:{n}" for n in model.output_names for kind in ("measured", "mean", "low", "high", "white")]
    states = [f"{kind}:{n}" for n in model.physical_names for kind in ("state", "state_low", "state_high")]
    return ("time", *outputs, *states)


def number_columns(tracks: Sequence[Track]) -> tuple[str, ...]:
    """Names of the columns of numbers."""
    names = tracks[0].identifier.problem.space.names
    constants = [f"{kind}:{n}" for n in names for kind in COUNTED]
    models = [f"{kind}:{t.name}" for t in tracks for kind in ("evidence", "change")]
    return ("time", *constants, "ess", "lag", "load", *models)


def sample_rows(track: Track, rows: Rows, position: int) -> Float[np.ndarray, "sample column"]:
    """Samples from a position on, with what was predicted for them."""
    model, outputs = track.model, len(track.model.output_names)
    found = np.full((len(rows.time), len(sample_columns(track))), np.nan)
    found[:, 0] = rows.time
    found[:, 1 : 1 + 5 * outputs : 5] = np.column_stack(list(track.named(rows.values, model.output_names).values()))
    for seen in track.seen:
        part = slice(seen.first - position, seen.first - position + len(seen.mean))
        if part.start < 0 or part.stop > len(found):
            continue
        for j in range(outputs):
            low, high = seen.mean[:, j] - WIDTH * seen.sd[:, j], seen.mean[:, j] + WIDTH * seen.sd[:, j]
            found[part, 2 + 5 * j : 6 + 5 * j] = np.stack([seen.mean[:, j], low, high, seen.white[:, j]], axis=1)
        for j in range(seen.state_mean.shape[1]):
            middle, width = seen.state_mean[:, j], WIDTH * seen.state_sd[:, j]
            place = 1 + 5 * outputs + 3 * j
            found[part, place : place + 3] = np.stack([middle, middle - width, middle + width], axis=1)
    return found


def tick(engine: "Engine") -> None:
    """Tell the feed the present numbers."""
    first = engine.tracks[0]
    if not first.identifier.samples:
        engine.feed.set_status(status(engine))
        return
    found = [track.numbers() if track.identifier.samples else {} for track in engine.tracks]
    row = [engine.time_of(max(engine.position - 1, 0))]
    for name in first.identifier.problem.space.names:
        numbers = found[0]["parameters"].get(name, {})
        row += [numbers.get(level, np.nan) for level in COUNTED]
    row += [found[0]["ess"], engine.lag_seconds, engine.load]
    for numbers in found:
        change = numbers.get("change")
        row += [numbers.get("log_evidence", np.nan), np.nan if change is None else change]
    values, weights = first.values()
    densities = {name: histogram(column, weights) for name, column in values.items()}
    engine.feed.add_numbers(np.array(row, dtype=float), status(engine), densities)


def status(engine: "Engine") -> dict[str, Any]:
    """What the head of the page says."""
    rate, needed = engine.rate, 1 / engine.dt
    short = engine.load > BUSY and engine.lag > 2 * rate
    return {
        "state": engine.state(),
        "processed": engine.processed,
        "lag_samples": engine.lag,
        "lag_seconds": engine.lag_seconds,
        "load": engine.load,
        "behind": f"cannot keep up: {rate:.0f} of {needed:.0f} samples per second" if short else "",
        "blocked": engine.intake.blocked,
        "counts": engine.intake.counts.as_dict(),
        "leading": engine.leading.name,
        "failures": {t.name: t.failure for t in engine.tracks if t.failure},
        "alarm": engine.alarm_text,
        "settling": settling(engine),
        "ended": engine.intake.ended,
    }


SETTLED = 200
"""Samples after a new start for which it is too early to say that the data fit."""


def settling(engine: "Engine") -> str:
    """What is said soon after a new start."""
    if engine.position >= SETTLED or engine.tracks[0].segment == 0:
        return ""
    return "started again; too early to say whether the data fit"


def histogram(values: Float[np.ndarray, " n"], weights: Float[np.ndarray, " n"]) -> tuple[np.ndarray, np.ndarray]:
    """Edges of bins, and the share in each."""
    alive = weights > 0
    low, high = float(np.min(values[alive])), float(np.max(values[alive]))
    margin = 0.02 * (high - low) or 1e-6 * max(abs(low), 1e-300)
    share, edges = np.histogram(values[alive], bins=BINS, range=(low - margin, high + margin), weights=weights[alive])
    return edges, share
