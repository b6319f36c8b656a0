"""Measurement noise of one output: Gaussian, or as it really is.

A number or a prior is the level (standard deviation) of independent Gaussian noise.  `Noise` says what is different:

    transform   "log": the logarithm of the output is measured, so that the noise is relative (lognormal)
    degrees     degrees of freedom of a Student-t distribution: outliers
    step        of a quantiser: a value says only that the noisy output was within half a step of it
    lower       bounds at which the sensor clips: a value there says only that the noisy output was
    upper       at the bound or beyond
    time        correlation time of first-order autoregressive (coloured) noise

They combine, but for `time`, which goes with `transform` alone.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from probsysid._internal.array_types import Numbers, Scalar, Truth
from probsysid._internal.errors import InputError, did_you_mean
from probsysid._internal.validation import is_finite, is_real
from probsysid.data.record import Record
from probsysid.model.priors import Prior

SPREAD = 2.0
"""Standard deviation of the log of an unknown noise level: a factor of 50 either way."""

AUTO = "auto"

DEGREES = dist.Gamma(2.0, 0.1)
"""Prior of unknown degrees of freedom (Juárez and Steel, 2010): from heavy tails to nearly Gaussian ones."""

NEAR_BOUND = 1e-9
"""A value this close to a bound, relative to the bound, is at it: scaling a channel rounds."""


@dataclass(frozen=True)
class Noise:
    """Measurement noise of one output.

    Args:
        level: standard deviation (of the logarithm with `transform="log"`; scale of the Student-t with `degrees`): a
            number, or a prior.  None for a wide prior from the data.
        transform: `"log"` for relative noise: log y = log(output) + noise.  Data must be positive.
        degrees: degrees of freedom of Student-t noise: a number, a prior, or `"auto"` for `Gamma(2, 0.1)`.
        step: step of a quantiser, which rounds the noisy output.
        lower, upper: bounds at which the noisy output is clipped.
        time: correlation time of first-order autoregressive noise, in units of the record's time: a number, or a prior.
    """

    level: Prior | None = None
    transform: Literal["log"] | None = None
    degrees: Prior | Literal["auto"] | None = None
    step: float | None = None
    lower: float | None = None
    upper: float | None = None
    time: Prior | None = None

    def __post_init__(self) -> None:
        if self.transform not in (None, "log"):
            raise InputError(f"Noise: transform is {self.transform!r}; it must be 'log', or left out.")
        if isinstance(self.degrees, str) and self.degrees == AUTO:
            object.__setattr__(self, "degrees", DEGREES)
        for key in ("level", "degrees", "time"):
            if getattr(self, key) is not None:
                check_positive(f"Noise: {key}", getattr(self, key))
        for key in ("step", "lower", "upper"):
            value = getattr(self, key)
            if value is not None and not (is_real(value) and is_finite(value)):
                raise InputError(f"Noise: {key} is {value!r}; it must be a finite number.")
        if self.step is not None and not self.step > 0:
            raise InputError(f"Noise: step is {self.step!r}; it must be positive.")
        if self.lower is not None and self.upper is not None and not self.lower < self.upper:
            raise InputError(f"Noise: lower is {self.lower!r} and upper {self.upper!r}; lower must be below upper.")
        for key in ("lower", "upper"):
            value = getattr(self, key)
            if self.transform == "log" and value is not None and not value > 0:
                raise InputError(f"Noise: {key} is {value!r}; with transform='log' it must be positive.")
        others = [key for key in ("degrees", "step", "lower", "upper") if getattr(self, key) is not None]
        if self.time is not None and others:
            raise InputError(f"Noise: time and {others[0]} are both given; coloured noise must be Gaussian.")

    @property
    def plain(self) -> bool:
        """Whether it is nothing but a level."""
        given = (self.transform, self.degrees, self.step, self.lower, self.upper, self.time)
        return all(value is None for value in given)

    @property
    def form(self) -> "NoiseForm":
        return NoiseForm(self.transform == "log", self.step, self.lower, self.upper)


AnyNoise: TypeAlias = Prior | Noise
"""What may be given as the noise of an output."""


class NoiseForm(NamedTuple):
    """What is known of an output's noise: equal for all particles, and part of the compiled program."""

    log: bool = False
    step: float | None = None
    lower: float | None = None
    upper: float | None = None

    def at_lower(self, values: Scalar) -> Truth:
        """Which values are at the lower bound."""
        assert self.lower is not None
        return values <= self.lower + NEAR_BOUND * abs(self.lower)

    def at_upper(self, values: Scalar) -> Truth:
        """Which values are at the upper bound."""
        assert self.upper is not None
        return values >= self.upper - NEAR_BOUND * abs(self.upper)


@partial(jax.tree_util.register_dataclass, data_fields=["level", "degrees", "time"], meta_fields=["form"])
@dataclass(frozen=True)
class NoiseValues:
    """The noise of one output for one particle; for many, with the particle axis last."""

    level: Numbers
    degrees: Numbers | None
    """None unless it is Student-t noise."""
    time: Numbers | None
    """None unless it is coloured."""
    form: NoiseForm


class NoiseNames(NamedTuple):
    """The names of the quantities of an output's noise."""

    level: str
    degrees: str | None
    time: str | None
    form: NoiseForm

    def of(self, values: Mapping[str, Scalar]) -> NoiseValues:
        def named(name: str | None) -> Numbers | None:
            return None if name is None else jnp.asarray(values[name])

        return NoiseValues(jnp.asarray(values[self.level]), named(self.degrees), named(self.time), self.form)


OutputNoise: TypeAlias = Scalar | NoiseValues
"""Of one output and one particle: the level of Gaussian noise, or `NoiseValues`."""


# What is given, by output


def quantities(noise: Mapping[str, AnyNoise]) -> dict[str, Prior]:
    """Everything with a value or a prior, by its name in tables: `noise.position`, `noise.position.degrees`, ..."""
    found: dict[str, Prior] = {}
    for output, given in noise.items():
        found[f"noise.{output}"] = level_of(given)
        if isinstance(given, Noise):
            more = {"degrees": given.degrees, "time": given.time}
            found |= {f"noise.{output}.{key}": value for key, value in more.items() if value is not None}
    return found


def level_of(given: AnyNoise) -> Prior:
    """The level, a number or a prior."""
    if not isinstance(given, Noise):
        return given
    assert given.level is not None, "missing levels are filled in before"
    return given.level


def forms(noise: Mapping[str, AnyNoise]) -> dict[str, NoiseForm]:
    """Of the outputs whose noise is not plainly Gaussian."""
    return {output: given.form for output, given in noise.items() if isinstance(given, Noise)}


def is_coloured(given: AnyNoise) -> bool:
    """Whether it is correlated over time."""
    return isinstance(given, Noise) and given.time is not None


def names_of(output: str, given: AnyNoise | None) -> str | NoiseNames:
    """The name of an output's noise level, or those of all quantities of its noise."""
    level = f"noise.{output}"
    if not isinstance(given, Noise):
        return level
    degrees = None if given.degrees is None else f"{level}.degrees"
    return NoiseNames(level, degrees, None if given.time is None else f"{level}.time", given.form)


def with_levels(noise: Mapping[str, AnyNoise], outputs: Iterable[str], records: Sequence[Record]) -> dict[str, Any]:
    """The noise of every output; a level that is not given has a wide prior from the data."""
    found: dict[str, AnyNoise] = {}
    for output in outputs:
        if output not in noise:
            found[output] = default_noise(output, records)
            continue
        given = noise[output]
        if isinstance(given, Noise) and given.level is None:
            found[output] = replace(given, level=default_noise(output, records, given.transform == "log"))
        else:
            found[output] = given
    return found | {name: given for name, given in noise.items() if name not in found}


def default_noise(name: str, records: Sequence[Record], logarithm: bool = False) -> dist.Distribution:
    """A wide prior around a tenth of the output's standard deviation, or that of its logarithm; 1 where it was never
    measured."""
    measured = [np.asarray(record.outputs[name]) for record in records if name in record.outputs]
    values = np.concatenate(measured) if measured else np.empty(0)
    values = values[np.isfinite(values)]
    if logarithm:
        values = np.log(values[values > 0])
    spread = float(np.std(values)) if len(values) else 0.0
    return dist.LogNormal(np.log(0.1 * spread), SPREAD) if spread > 0 else 1.0


# Checks


def checked_noise(noise: Mapping[str, AnyNoise], outputs: Sequence[str]) -> dict[str, AnyNoise]:
    """The noise of each output, a `Noise` that is plainly Gaussian as its level."""
    found: dict[str, AnyNoise] = {}
    for name, given in noise.items():
        if name not in outputs:
            hint = did_you_mean(name, outputs)
            raise InputError(f"noise names {name!r}; known are: {', '.join(outputs)}.{hint}")
        if isinstance(given, Noise) and given.level is None:
            raise InputError(f"the noise of {name!r} has no level; online, give a number or a prior.")
        found[name] = level_of(given) if isinstance(given, Noise) and given.plain else given
        if not isinstance(given, Noise):
            check_positive(f"noise of {name!r}", given, f"noise.{name}")
    return found


def check_positive(what: str, value: Any, name: str | None = None) -> None:
    """Raise unless it is a positive number, or a prior of one."""
    if isinstance(value, dist.Distribution):
        if not bool(value.support.is_discrete) and float(np.asarray(value.support(jnp.asarray(-1.0)))):
            raise InputError(f"the prior of {name or what} allows negative values; use one such as dist.LogNormal.")
    elif not (is_finite(value) and np.shape(value) == () and value > 0):
        raise InputError(f"{what} is {value!r}; it must be a positive number or a prior.")


def check_data(noise: Mapping[str, AnyNoise], outputs: Mapping[str, Any], where: str = "") -> None:
    """Raise where data have no logarithm, but need one."""
    for name, form in forms(noise).items():
        values = np.asarray(outputs.get(name, np.empty(0)), dtype=float)
        if form.log and np.any(values <= 0):
            sample = int(np.flatnonzero(values <= 0)[0])
            raise InputError(
                f"{name!r} is {values[sample]:.6g} at sample {sample}{where}; with transform='log' all its values must "
                "be positive (NaN where one is missing)."
            )


def check_records(noise: Mapping[str, AnyNoise], records: Sequence[Record]) -> None:
    """Raise where records contradict the noise of their outputs."""
    for index, record in enumerate(records):
        where = f" of record {index}" if len(records) > 1 else ""
        check_data(noise, record.outputs, where)
        for name, form in forms(noise).items():
            values = np.asarray(record.outputs.get(name, np.empty(0)))
            values = values[np.isfinite(values)]
            if len(values) and np.all(clipped(form, values)):
                raise InputError(
                    f"all values of {name!r}{where} are at or beyond the bounds of its noise (lower {form.lower}, "
                    f"upper {form.upper}); look at the units."
                )


def clipped(form: NoiseForm, values: np.ndarray) -> np.ndarray:
    """Which values are at a bound."""
    found = np.zeros(np.shape(values), dtype=bool)
    if form.lower is not None:
        found = found | form.at_lower(values)
    return found if form.upper is None else found | form.at_upper(values)
