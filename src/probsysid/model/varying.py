"""Parameters that differ between records: one value per record around a common one, or unrelated values.

Around a common value k with spread s, record r has

    log k_r = log k + s z_r    for a parameter that is positive: s is relative, 0.05 means 5 %,
    k_r = k + s z_r            for any other: s is absolute, in the parameter's own unit,

with z_r standard normal.  What is positive is told by the support of the parameter's prior.  Where the support has
further bounds, such as those of a Uniform prior, the normal distribution is truncated to them.

The sampler moves log k + s z_r, or k + s z_r (a centred parametrisation): most records tell their own value far better
than values differ between records, and it is these values that the data then determine (docs/decisions.md).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.scipy.special import ndtr, ndtri

from probsysid._internal.array_types import Numbers, Scalar
from probsysid._internal.errors import InputError, did_you_mean
from probsysid._internal.validation import is_finite
from probsysid.model.model import Model
from probsysid.model.priors import Prior, Priors

SEPARATE: Literal["separate"] = "separate"
"""One value per record with the parameter's own prior, unrelated to the others."""

FARTHEST = 300.0
"""Largest logarithm of the ratio of a value to the common one: particles without weight may have any spread, and zero
times infinity is not zero."""

Variation: TypeAlias = Prior | Literal["separate"]
"""The prior of a spread, or a number for it, or `"separate"`."""


def record_value(name: str, record: int) -> str:
    """The name of a varying parameter's value on one record, `k[0]`."""
    return f"{name}[{record}]"


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["spread", "lower", "upper"],
    meta_fields=["name", "records", "relative"],
)
@dataclass(frozen=True, eq=False)
class VaryingParameter:
    """A parameter with values around a common one."""

    name: str
    records: int
    relative: bool
    """Whether the spread is that of the logarithm."""
    spread: float | None
    """None if it is inferred."""
    lower: float | None
    upper: float | None
    """Bounds of the prior's support; of the logarithm if the spread is relative, None where there is none."""

    @classmethod
    def of(cls, name: str, prior: dist.Distribution, spread: Prior, records: int) -> "VaryingParameter":
        lower, upper = support_bounds(name, prior)
        relative = lower >= 0
        if relative:
            lower, upper = (float(np.log(bound)) if bound > 0 else -np.inf for bound in (lower, upper))
        given = None if isinstance(spread, dist.Distribution) else float(spread)
        return cls(name, records, relative, given, *(float(b) if np.isfinite(b) else None for b in (lower, upper)))

    @property
    def spread_name(self) -> str:
        return f"{self.name}.spread"

    @property
    def deviations_name(self) -> str:
        """The name of the site of all z_r, which tables do not show."""
        return f"{self.name}.deviations"

    @property
    def record_names(self) -> tuple[str, ...]:
        return tuple(record_value(self.name, r) for r in range(self.records))

    def resolved(self, values: Mapping[str, Numbers]) -> dict[str, Numbers]:
        """Values of all quantities with those of the records in place of their deviations."""
        rest = dict(values)
        deviations = rest.pop(self.deviations_name)
        return rest | {name: self.value(values, deviations[r]) for r, name in enumerate(self.record_names)}

    def coordinates(self, values: Mapping[str, Numbers], deviations: Numbers) -> Numbers:
        """Where the sampler has records with these deviations, given the common value and its spread."""
        centre, spread = self._distribution(values)
        return centre + spread * deviations

    def deviations(self, values: Mapping[str, Numbers], coordinates: Numbers) -> Numbers:
        """The inverse of `coordinates`."""
        centre, spread = self._distribution(values)
        return (coordinates - centre) / spread

    def log_density(self, values: Mapping[str, Numbers], coordinates: Numbers) -> Numbers:
        """Log density of coordinates, given the common value and its spread."""
        scores = self.deviations(values, coordinates)
        constant = 0.5 * np.log(2 * np.pi) + jnp.log(self._distribution(values)[1])
        return jnp.sum(-0.5 * scores**2 - constant, axis=0)

    def _distribution(self, values: Mapping[str, Numbers]) -> tuple[Numbers, Scalar]:
        """Centre and spread of the coordinates."""
        common, spread = values[self.name], values[self.spread_name] if self.spread is None else self.spread
        return jnp.log(common) if self.relative else common, spread

    def value(self, values: Mapping[str, Numbers], deviation: Scalar) -> Numbers:
        """The parameter on the record with this deviation, given the common value and its spread."""
        common, (centre, spread) = values[self.name], self._distribution(values)
        shift = spread * self._truncated(centre, spread, deviation)
        return common * jnp.exp(jnp.clip(shift, -FARTHEST, FARTHEST)) if self.relative else common + shift

    def _truncated(self, centre: Numbers, spread: Scalar, deviation: Scalar) -> Scalar:
        """A standard normal number as one of the normal distribution that is truncated to the bounds.

        By the probability of the tail it is in, which is known to full precision however far out it is.
        """
        if self.lower is None and self.upper is None:
            return deviation
        below = 0.0 if self.lower is None else ndtr((self.lower - centre) / spread)
        above = 0.0 if self.upper is None else ndtr((centre - self.upper) / spread)
        left = 1.0 - below - above
        from_below = ndtri(below + left * ndtr(jnp.minimum(deviation, 0.0)))
        from_above = -ndtri(above + left * ndtr(-jnp.maximum(deviation, 0.0)))
        return jnp.where(deviation < 0, from_below, from_above)

    def describe(self) -> str:
        """The distribution of a record's value, given the common one."""
        spread = f"{self.spread:g}" if self.spread is not None else self.spread_name
        text = f"LogNormal(log {self.name}, {spread})" if self.relative else f"Normal({self.name}, {spread})"
        if self.lower is None and self.upper is None:
            return text
        ends = [None if b is None else float(np.exp(b)) if self.relative else b for b in (self.lower, self.upper)]
        if ends[0] is not None and ends[1] is not None:
            return f"{text} within {ends[0]:g} and {ends[1]:g}"
        return f"{text} above {ends[0]:g}" if ends[0] is not None else f"{text} below {ends[1]:g}"


def check_variations(model: Model, priors: Priors, varies: Mapping[str, Variation]) -> None:
    """Raise unless everything that varies is a parameter with a prior of its own, with a spread or `"separate"`."""
    names: Sequence[str] = model.parameter_names
    for name, value in varies.items():
        if name not in names:
            hint = did_you_mean(str(name), names)
            raise InputError(f"varies names {name!r}; the parameters are: {', '.join(names)}.{hint}")
        if model.shapes.get(name, ()) != ():
            raise InputError(f"varies names {name!r}, which is an array; only parameters that are numbers can vary.")
        prior = dict(priors).get(name)
        if not isinstance(prior, dist.Distribution):
            why = "it has a joint prior" if prior is None else f"it is fixed at {prior!r}"
            raise InputError(f"varies names {name!r}, but {why}; give {name!r} a prior of its own.")
        _check_variation(name, value)
        if isinstance(value, str):
            continue
        support_bounds(name, prior)


def _check_variation(name: str, value: Variation) -> None:
    remedy = f"give a prior of its spread, such as dist.HalfNormal(0.05), a positive number, or {SEPARATE!r}"
    if isinstance(value, str):
        if value != SEPARATE:
            raise InputError(f"varies of {name!r} is {value!r}; {remedy}.{did_you_mean(value, (SEPARATE,))}")
    elif isinstance(value, dist.Distribution):
        shape = tuple(value.batch_shape + value.event_shape)
        if shape != ():
            raise InputError(f"the prior of {name}.spread has shape {shape}; the spread is a number.")
        if not bool(value.support.is_discrete) and float(np.asarray(value.support(jnp.asarray(-1.0)))):
            raise InputError(f"the prior of {name}.spread allows negative values; use one such as dist.HalfNormal.")
    elif not (is_finite(value) and np.shape(value) == () and value > 0):
        raise InputError(f"varies of {name!r} is {value!r}; {remedy}.")


def support_bounds(name: str, prior: dist.Distribution) -> tuple[float, float]:
    """Of the support of a prior, which must be an interval."""
    support = prior.support
    if support is dist.constraints.real:
        return -np.inf, np.inf
    ends = [getattr(support, f"{side}_bound", None) for side in ("lower", "upper")]
    if all(end is None for end in ends) or any(np.ndim(end) for end in ends if end is not None):
        raise InputError(f"{name!r} varies or drifts, and its prior {type(prior).__name__} is not one of an interval.")
    return -np.inf if ends[0] is None else float(ends[0]), np.inf if ends[1] is None else float(ends[1])
