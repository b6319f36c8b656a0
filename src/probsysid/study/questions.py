"""What `new` asks on a terminal: columns, each with its guess and the reason, and the step where nothing says it."""

import math
from collections.abc import Callable
from dataclasses import replace

from probsysid._internal.errors import InputError
from probsysid.data.readers import Table
from probsysid.study.catalogue import CatalogueModel
from probsysid.study.choices import Choices, parse_choices
from probsysid.study.columns import guess_columns

Ask = Callable[[str, str], str]
"""A question and the answer that is proposed -> the answer."""

NONE = "none"


def confirmed(table: Table, entry: CatalogueModel, choices: Choices, ask: Ask | None) -> Choices:
    """The choices with what the user answers: columns, each with its guess and the reason, and the step."""
    if ask is None:
        return choices
    found = guess_columns(table, entry, choices)
    listed = ", ".join(table.names[:20])
    if not choices.outputs:
        guess = ", ".join(found.outputs.values()) or NONE
        why = "; ".join(dict.fromkeys(found.reasons[name] for name in found.outputs)) or "none was found"
        answer = ask(f"Columns: {listed}.\nOutputs, separated by commas ({why})", guess)
        if answer != guess:
            choices = _chosen(table, choices, outputs=answer)
    if not choices.inputs and not choices.no_input:
        guess = ", ".join(found.inputs.values()) or NONE
        why = "; ".join(dict.fromkeys(found.reasons[name] for name in found.inputs)) or "none was found"
        answer = ask(f"Inputs, separated by commas, or none ({why})", guess)
        if answer != guess:
            choices = _chosen(table, choices, inputs=answer)
    if found.time is None and found.dt is None:
        answer = ask("No column has sample times.  Seconds per sample, or a rate such as 100 Hz", "")
        choices = replace(choices, dt=_seconds(answer))
    return choices


def _chosen(table: Table, choices: Choices, **answers: str) -> Choices:
    listed = {key: [part.strip() for part in text.split(",")] for key, text in answers.items()}
    new = parse_choices(table, inputs=listed.get("inputs", ()), outputs=listed.get("outputs", ()))
    if "inputs" in answers:
        return replace(choices, inputs=new.inputs, no_input=new.no_input)
    return replace(choices, outputs=new.outputs)


def _seconds(answer: str) -> float:
    """`0.01`, `0.01 s` or `100 Hz`."""
    number, _, unit = answer.strip().partition(" ")
    try:
        value = float(number)
    except ValueError:
        value = 0.0
    if not (math.isfinite(value) and value > 0) or unit.lower() not in ("", "s", "ms", "hz", "khz"):
        raise InputError(f"{answer!r} is not a step; write seconds such as 0.01, or a rate such as 100 Hz.")
    factor = {"": 1.0, "s": 1.0, "ms": 1e-3, "hz": 1.0, "khz": 1e3}[unit.lower()]
    return 1 / (factor * value) if unit.lower().endswith("hz") else factor * value
