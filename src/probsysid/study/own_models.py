"""The equation that a new study begins with, where the user names no model: chosen by what the data look like."""

import re
from dataclasses import replace

from probsysid.data.readers import Table
from probsysid.study.catalogue import ENTRIES, CatalogueModel, ParameterHint
from probsysid.study.choices import Choices
from probsysid.study.column_names import DRUG, identifier, word_of
from probsysid.study.columns import Columns, guess_columns, times
from probsysid.study.first_look import FirstLook, look

OSCILLATOR = CatalogueModel(
    "my oscillator",
    {"x": 2},
    {"x": "(force - c*dx - k*x)/m"},
    {"position": "x", "velocity": "dx", "acceleration": "ddx"},
    {"force": "N"},
    {
        "m": ParameterHint("kg", "mass", (1, -1, 2)),
        "c": ParameterHint("N s/m", "viscous damping", (1, -1, 1), 0.1),
        "k": ParameterHint("N/m", "stiffness", (1, -1, 0)),
    },
)

FREE_OSCILLATOR = CatalogueModel(
    "my free oscillation",
    {"x": 2},
    {"x": "-2*d*dx - omega**2*x"},
    OSCILLATOR.quantities,
    {},
    {
        "omega": ParameterHint("rad/s", "natural frequency", (0, 0, -1)),
        "d": ParameterHint("1/s", "decay rate", (0, 0, -1), 0.05),
    },
)
"""The same if the data have no column for an input: a free decay does not identify the mass."""

FREE_DECAY = CatalogueModel(
    "my relaxation",
    {"x": 1},
    {"x": "(x_end - x)/T"},
    {"response": "x"},
    {},
    {
        "x_end": ParameterHint("", "final value", (0, 1, 0), signed=True),
        "T": ParameterHint("s", "time constant", (0, 0, 1)),
    },
)


def choose_model(table: Table, choices: Choices) -> tuple[CatalogueModel, FirstLook | None, str]:
    """A model for the data, what they look like, and the reason in words."""
    columns = guess_columns(table, OSCILLATOR, choices)
    seen = first_look(table, columns)
    drive = next(iter(columns.inputs.values()), None)
    names = {word_of(column) for column in columns.outputs.values()}
    kinds = {kind for kind in columns.outputs if kind in ("velocity", "acceleration")}
    if names & set(DRUG) and drive is not None:
        entry, why = ENTRIES["one-compartment"], "a dose and a concentration"
    elif seen is None:
        entry, why = OSCILLATOR if drive else FREE_OSCILLATOR, "nothing is seen in the data"
    elif seen.oscillates or "acceleration" in kinds:
        entry = OSCILLATOR if drive else FREE_OSCILLATOR
        why = f"the response oscillates, with about {1 / (6.2832 * seen.time):.3g} Hz"
    elif drive is None:
        entry, why = FREE_DECAY, f"the response does not oscillate; its time constant is about {seen.time:.3g} s"
    elif kinds == {"velocity"}:
        entry, why = ENTRIES["motor"], "a speed that does not oscillate"
    else:
        entry = ENTRIES["first-order-lag"]
        why = f"the response does not oscillate; its time constant is about {seen.time:.3g} s"
    return _with_names(entry, choices), seen, why


def first_look(table: Table, columns: Columns) -> FirstLook | None:
    """At the first output and the first input."""
    if not columns.outputs or (columns.time is None and columns.dt is None):
        return None
    column = next(iter(columns.outputs.values()))
    drive = next(iter(columns.inputs.values()), None)
    time = times(table, columns, [])
    return look(time, None if drive is None else columns.numbers(table, drive), columns.numbers(table, column))


def _with_names(entry: CatalogueModel, choices: Choices) -> CatalogueModel:
    """The model with the user's names of inputs in its equations, and her outputs."""
    inputs, equations = dict(entry.inputs), dict(entry.equations)
    for (channel, _), old in zip(choices.inputs, entry.inputs, strict=False):
        if channel is not None and channel != old and channel not in entry.coordinates:
            inputs = {channel if name == old else name: unit for name, unit in inputs.items()}
            equations = {c: re.sub(rf"\b{old}\b", channel, text) for c, text in equations.items()}
    quantities = dict(entry.quantities)
    for channel, column in choices.outputs:
        name = channel or identifier(column)
        if name not in quantities and channel is not None:
            first = next(iter(entry.quantities))
            quantities = {name: entry.quantities[first]} | {k: v for k, v in quantities.items() if k != first}
    return replace(entry, inputs=inputs, equations=equations, quantities=quantities)
