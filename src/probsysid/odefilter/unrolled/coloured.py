"""Coloured noise (`coloured_noise.py`) as further rows of numbers, after those of the free components."""

from collections.abc import Sequence

from probsysid.model.noise import OutputNoise
from probsysid.odefilter.coloured_noise import coloured, decay
from probsysid.odefilter.filter_state import FilterState
from probsysid.odefilter.interval_data import IntervalData
from probsysid.odefilter.unrolled import gaussian
from probsysid.odefilter.unrolled.gaussian import Entry, Row


def diagonal(values: Sequence[Entry], columns: int, first: int) -> list[Row]:
    """Rows with one value each, in consecutive columns from the first."""
    return [[value if k == first + j else None for k in range(columns)] for j, value in enumerate(values)]


def aged(state: FilterState, free: int, noise: Sequence[OutputNoise], sample: IntervalData) -> FilterState:
    """The state with its coloured noise an interval later."""
    factors, fresh = zip(*(decay(r, sample) for r in coloured(noise).values()), strict=True)
    size = len(state.mean) - len(factors)
    mean = [*state.mean[:size], *(a * n for a, n in zip(factors, state.mean[size:], strict=True))]
    rows = [[gaussian.multiply(x, a) for x in row] for a, row in zip(factors, state.factor[free:], strict=True)]
    added = [*[[None] * len(fresh)] * free, *diagonal(fresh, len(fresh), 0)]
    pairs = zip([*state.factor[:free], *rows], added, strict=True)
    return state._replace(mean=mean, factor=gaussian.triangularise([[*row, *more] for row, more in pairs]))


def with_coloured(
    output_rows: list[Row], predictions: Sequence[Entry], state: FilterState, free: int, noise: Sequence[OutputNoise]
) -> tuple[list[Row], Row]:
    """Rows and predictions of the outputs together with their coloured noise."""
    rows, values = list(output_rows), list(predictions)
    places = coloured(noise)
    for k, row, mean in zip(places, state.factor[free:], state.mean[len(state.mean) - len(places) :], strict=True):
        rows[k] = [gaussian.add(*pair) for pair in zip(rows[k], row, strict=True)]
        values[k] = values[k] + mean
    return rows, values


def noise_alone(state: FilterState, factor: list[Row], free_mean: Sequence[Entry], free: int) -> FilterState:
    """The state with its coloured noise as after the data, and its components as before."""
    rows = diagonal([gaussian.length(row) for row in factor[free:]], len(factor), free)
    mean = [*state.mean[: len(state.mean) - len(rows)], *free_mean[free:]]
    return state._replace(mean=mean, factor=[*state.factor[:free], *rows])
