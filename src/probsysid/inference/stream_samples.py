"""Samples as a user gives them to a stream."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from probsysid._internal.errors import InputError
from probsysid._internal.validation import check_mapping
from probsysid.model.laws import check_support
from probsysid.model.noise import check_data
from probsysid.model.problem import Problem


def checked_samples(
    problem: Problem, inputs: Mapping[str, Any], outputs: Mapping[str, Any]
) -> tuple[int, dict[str, np.ndarray]]:
    """Their number and their channels; outputs that are left out are missing."""
    model = problem.model
    fresh_inputs = _block("input", inputs, model.input_names, missing_allowed=False)
    fresh_outputs = _block("output", outputs, model.output_names, missing_allowed=True)
    count = _common_length({**fresh_inputs, **{f"output {k}": v for k, v in fresh_outputs.items()}})
    for name in model.output_names:
        fresh_outputs.setdefault(name, np.full(count, np.nan))
    check_data(problem.noise, fresh_outputs, " of the new ones")
    check_support(model, fresh_outputs, where=" of the new ones")
    return count, {**fresh_inputs, **{f"output:{name}": values for name, values in fresh_outputs.items()}}


def _block(kind: str, given: Mapping[str, Any], known: tuple[str, ...], missing_allowed: bool) -> dict[str, np.ndarray]:
    """Checked arrays by name."""
    check_mapping(f"{kind}s", given, f"{{{known[0]!r}: 0.1}}" if known else "{}")
    for name in given:
        if name not in known:
            raise InputError(f"there is no {kind} {name!r}; known are: {', '.join(known) or 'none'}.")
    result = {}
    for name in known:
        if name not in given:
            if missing_allowed:
                continue
            raise InputError(f"the {kind} {name!r} is missing.")
        try:
            values = np.atleast_1d(np.asarray(given[name], dtype=float))
        except (TypeError, ValueError):
            raise InputError(f"the {kind} {name!r} is {given[name]!r}; it must be a number or an array.") from None
        if values.ndim != 1:
            raise InputError(f"the {kind} {name!r} has shape {values.shape}; it must be a number or one-dimensional.")
        bad = ~np.isfinite(values) if not missing_allowed else np.isinf(values)
        if bad.any():
            raise InputError(f"the {kind} {name!r} is {values[bad][0]} at position {int(np.flatnonzero(bad)[0])}.")
        result[name] = values
    return result


def _common_length(arrays: Mapping[str, np.ndarray]) -> int:
    lengths = {name: len(values) for name, values in arrays.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise InputError(f"inputs and outputs have different lengths: {listed}.")
    return next(iter(lengths.values()), 0)
