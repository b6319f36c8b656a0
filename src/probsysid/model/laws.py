"""Outputs given as distributions of what is measured, and noise in the equations that depends on the state.

An output is a number, to which measurement noise is added, or a distribution: `dist.Poisson(s.x)`.  A diffusion gives
each coordinate the factor of its own Wiener process, `{"x": p.sigma * s.x}`, or those of several by name,
`{"x": {"birth": jnp.sqrt(p.b * s.x)}}`; coordinates that name the same one are pushed by it together.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from probsysid._internal.array_types import Scalar
from probsysid._internal.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from probsysid.model.model import Model

Columns = dict[str, dict[str, Any]]
"""By Wiener process: the factor for each coordinate that it pushes."""


def mean_of(value: Any) -> Any:
    """A number itself; of a distribution the mean."""
    return value.mean if isinstance(value, dist.Distribution) else value


def law_names(outputs: Mapping[Any, Any]) -> tuple[str, ...]:
    """The outputs that are distributions; raises for those of several numbers."""
    found = []
    for name, value in outputs.items():
        if isinstance(value, type) and issubclass(value, dist.Distribution):
            raise InputError(f"outputs returned the class {value.__name__} for {name!r}; give it its parameters.")
        if not isinstance(value, dist.Distribution):
            continue
        shape = tuple(value.batch_shape) + tuple(value.event_shape)
        if shape:
            raise InputError(
                f"outputs returned a distribution of shape {shape} for {name!r}; it must be of one number."
            )
        found.append(str(name))
    return tuple(found)


def log_density(law: dist.Distribution, value: Scalar) -> Scalar:
    """Log density, or log probability of a count, minus infinity outside of the support; zero where it is missing."""
    present = ~jnp.isnan(value)
    # a value in the support stands for one that is missing, or that is not in it
    inside = present & jnp.asarray(law.support(value), dtype=bool) & _whole(law, value)
    safe = jnp.where(inside, value, jnp.asarray(law.support.feasible_like(jnp.zeros(())), dtype=float))
    found = jnp.where(inside, law.log_prob(safe), -jnp.inf)
    return jnp.where(present, jnp.where(jnp.isnan(found), -jnp.inf, found), 0.0)


def _whole(law: dist.Distribution, value: Scalar) -> Scalar:
    return jnp.asarray(value == jnp.round(value)) if law.support.is_discrete else jnp.ones((), dtype=bool)


def variance_of(law: dist.Distribution) -> Scalar:
    """The variance of what is measured."""
    return jnp.asarray(law.variance, dtype=float)


def columns_of(diffusion: Any, coordinates: Sequence[str]) -> Columns:
    """The factors of each Wiener process; raises for what is not a diffusion."""
    if not isinstance(diffusion, Mapping):
        example = f"{{{coordinates[0]!r}: ...}}"
        raise InputError(
            f"diffusion must return a dictionary such as {example}; it returned {type(diffusion).__name__}."
        )
    columns: Columns = {}
    for name, given in diffusion.items():
        if name not in coordinates:
            known = ", ".join(coordinates)
            raise InputError(
                f"diffusion returned {name!r}, not a coordinate; coordinates are: {known}."
                f"{did_you_mean(str(name), list(coordinates))}"
            )
        for process, factor in (given if isinstance(given, Mapping) else {name: given}).items():
            if process in coordinates and process != name:
                raise InputError(
                    f"diffusion of {name!r} names the Wiener process {process!r}, which is the own one of that "
                    "coordinate; choose another name."
                )
            if jnp.shape(factor) != ():
                raise InputError(f"diffusion returned shape {jnp.shape(factor)} for {name!r}; it must be one number.")
            columns.setdefault(str(process), {})[str(name)] = jnp.asarray(factor, dtype=float)
    return columns


SCALES = (1.0, 1e3, 1e12)
"""Of states, inputs and parameters at which supports are looked at: their bounds may depend on them."""


def check_support(model: "Model", outputs: Mapping[str, Any], time: np.ndarray | None = None, where: str = "") -> None:
    """Raise where a distribution cannot give a value that was measured, whatever its parameters."""
    for name in model.law_names:
        values = np.asarray(outputs.get(name, np.empty(0)), dtype=float)
        given = np.where(np.isfinite(values), values, 0.0)
        laws = [_law_at(model, name, scale) for scale in SCALES]
        inside = np.any([np.asarray(law.support(jnp.asarray(given)), dtype=bool) for law in laws], axis=0)
        if laws[0].support.is_discrete:
            inside &= given == np.round(given)
        wrong = np.flatnonzero(~np.isnan(values) & ~(inside & np.isfinite(values)))
        if len(wrong):
            at = "" if time is None else f" (t = {time[wrong[0]]:.6g})"
            kind = "a whole number, 0 or more" if _counts(laws[0]) else "in its support"
            raise InputError(
                f"{name!r} is {values[wrong[0]]:.6g} at sample {wrong[0]}{at}{where}, which no {_name(laws[0])} "
                f"distribution gives: it must be {kind} (NaN where it is missing)."
            )


def _law_at(model: "Model", name: str, scale: float) -> dist.Distribution:
    """The distribution of an output where all numbers are the same."""
    number = jnp.asarray(scale)
    parameters = {p: jnp.broadcast_to(number, model.shapes.get(p, ())) for p in model.parameter_names}
    components = [number] * len(model.physical_names), [number] * len(model.highest_names)
    return model.laws_at(*components, [number] * len(model.input_names), parameters)[name]


def _name(law: dist.Distribution) -> str:
    """`Binomial`, not `BinomialProbs`."""
    return type(law).__name__.removesuffix("Probs").removesuffix("Logits")


def _counts(law: dist.Distribution) -> bool:
    return bool(law.support.is_discrete) and not bool(law.support(jnp.asarray(-1)))
