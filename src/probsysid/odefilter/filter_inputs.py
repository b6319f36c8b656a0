"""From a record to the `IntervalData` that the filter reads at each sample."""

import numpy as np
from jaxtyping import Float

from probsysid._internal.array_types import Numbers
from probsysid._internal.memory import check_memory
from probsysid.data.record import Record
from probsysid.model.model import Model
from probsysid.odefilter.diffusion import EXTRA_DERIVATIVES, unit_variances
from probsysid.odefilter.interval_data import IntervalData
from probsysid.odefilter.ode_filter import ODEFilter


def prepare(
    record: Record,
    ode_filter: ODEFilter,
    substeps: int,
    unit: Float[np.ndarray, "sample substep coordinate"] | None = None,
) -> IntervalData:
    """Everything that is the same for all particles, with the sample axis first.

    Row k belongs to sample k and to the interval that ends there; row 0 has no interval and repeats the first one's
    step.  If the record is a part of a longer one, `unit` holds the variances of the ODE residual within that one.
    """
    model, layout = ode_filter.model, ode_filter.layout
    model.check_inputs(record.input_names)
    numbers = record.samples * max(substeps, ROOM) * (len(record.inputs) + len(layout.orders))
    check_memory(f"{record.samples} samples with {substeps} steps each", 8 * 3 * numbers)
    used = [record.input_names.index(name) for name in model.input_names]
    steps = step_lengths(record) / substeps
    derivatives = max(q - n for n, q in zip(layout.orders, layout.smoothness, strict=True)) + EXTRA_DERIVATIVES
    scales = layout.scales(steps) if record.dt is None else None
    inputs = record.input_derivatives(derivatives)[:, used, :]
    before = np.maximum(np.arange(record.samples) - 1, 0)
    return IntervalData(
        grid=record.input_grid(substeps)[:, :, used],
        inputs=_values_only(inputs) if ode_filter.restarts else inputs,
        departure=inputs[before],
        outputs=measured(record, model),
        unit=units(ode_filter, steps[1:], substeps) if unit is None else unit,
        scales=np.tile(layout.scales(steps[0]), (record.samples, 1)) if scales is None else scales,
        step=steps,
        rescale=None if scales is None else scales[before] / scales,
    )


def units(
    ode_filter: ODEFilter, steps: Float[np.ndarray, " interval"], substeps: int
) -> Float[np.ndarray, "sample substep coordinate"]:
    """Variances of the ODE residual for unit diffusion; ones for the first sample, which has no interval."""
    layout = ode_filter.layout
    pairs = zip(layout.orders, layout.smoothness, strict=True)
    table = np.stack([unit_variances(q, n, steps, substeps, ode_filter.restarts) for n, q in pairs], axis=-1)
    return np.concatenate([np.ones((1, *table.shape[1:])), table])


ROOM = 32
"""Steps per interval that the arrays of a program with more than one step are padded to, or a multiple of it."""


def with_room(samples: IntervalData) -> IntervalData:
    """The same samples with arrays padded to more steps: one program then serves any number of steps up to that."""
    count = samples.grid.shape[1]
    room = ROOM * -(-count // ROOM)

    def pad(leaf: Numbers) -> np.ndarray:
        return np.concatenate([leaf, np.repeat(leaf[:, -1:], room - count, axis=1)], axis=1)

    return samples._replace(grid=pad(samples.grid), unit=pad(samples.unit), count=np.full(len(samples.grid), count))


def _values_only(inputs: np.ndarray) -> np.ndarray:
    """Inputs with zero derivatives: with restarts, the state's higher derivatives are re-initialised before they are
    used, and an online run would not know the inputs' derivatives at the first sample."""
    return np.concatenate([inputs[..., :1], np.zeros_like(inputs[..., 1:])], axis=-1)


def step_lengths(record: Record) -> np.ndarray:
    """Length of the interval before each sample; the first sample repeats the first interval's."""
    if record.dt is not None:
        return np.full(record.samples, record.dt)
    lengths = np.diff(record.time)
    return np.concatenate([lengths[:1], lengths])


def measured(record: Record, model: Model) -> Float[np.ndarray, "sample output"]:
    """Outputs in the model's order; one that the record does not have is missing (NaN) at all samples."""
    missing = np.full(record.samples, np.nan)
    return np.stack([record.outputs.get(name, missing) for name in model.output_names], axis=-1)
