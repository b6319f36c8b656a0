"""Checks and moments of the state at the first sample."""

from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any

import numpy as np
import numpyro.distributions as dist

from probsysid._internal.errors import InputError, did_you_mean
from probsysid.model.model import Model
from probsysid.model.priors import Prior


def check_initial_names(model: Model, initial: Iterable[str]) -> None:
    """Raise if a name is not a physical component."""
    for name in initial:
        if name not in model.physical_names:
            known = ", ".join(model.physical_names)
            hint = did_you_mean(name, model.physical_names)
            raise InputError(f"initial names {name!r}; the components with an initial value are: {known}.{hint}")


def initial_moments(model: Model, initial: Mapping[str, Prior]) -> list[tuple[float, float]]:
    """Mean and standard deviation of each physical component; components that are not named are exactly zero."""
    check_initial_names(model, initial)
    return [gaussian_moments(name, initial.get(name, 0.0)) for name in model.physical_names]


def gaussian_moments(name: str, value: Any) -> tuple[float, float]:
    """Mean and standard deviation of a number (known exactly) or of a Normal distribution."""
    if isinstance(value, dist.Normal):
        mean, sd = float(np.asarray(value.loc)), float(np.asarray(value.scale))
    elif isinstance(value, Real) or (hasattr(value, "shape") and np.shape(value) == ()):
        mean, sd = float(value), 0.0
    else:
        raise InputError(f"the initial value of {name!r} is {value!r}; it must be a number or dist.Normal(mean, sd).")
    if not (np.isfinite(mean) and np.isfinite(sd)):
        raise InputError(f"the initial value of {name!r} has mean {mean!r} and sd {sd!r}; both must be finite.")
    return mean, sd
