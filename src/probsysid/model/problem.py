"""The inference problem: a model with priors, noise, initial values and process noise, checked and laid out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from probsysid._internal.array_types import Scalar
from probsysid._internal.errors import InputError, did_you_mean
from probsysid._internal.validation import is_finite
from probsysid.model.initial_state import check_initial_names, gaussian_moments
from probsysid.model.latent_processes import LatentProcess, LatentProcesses
from probsysid.model.model import Model
from probsysid.model.noise import AnyNoise, NoiseNames, check_positive, checked_noise, names_of, quantities
from probsysid.model.parameter_space import ParameterSpace
from probsysid.model.particle import Particle
from probsysid.model.priors import Prior, Priors
from probsysid.model.varying import Variation, VaryingParameter, check_variations, record_value

DIFFUSION = "solver.diffusion"
"""Name of the diffusion of the solver's prior, where it is a quantity."""


@dataclass(frozen=True, eq=False)
class Problem:
    """Everything that is inferred, but for the data.  Checked and laid out once, for batch and online alike."""

    model: Model
    """With a coordinate for each unknown input and drift."""
    priors: Priors
    """Those of the hyperparameters of unknown inputs and drifts included."""
    noise: Mapping[str, AnyNoise]
    initials: Sequence[Mapping[str, Prior]]
    process_noise: Mapping[str, Prior]
    varies: Mapping[str, Variation] = field(default_factory=dict)
    latent: LatentProcesses = field(default_factory=LatentProcesses)
    """Unknown inputs and drifts."""
    own_model: Model | None = None
    """The model without these, where there are any."""

    @classmethod
    def make(
        cls,
        model: Model,
        priors: Priors,
        noise: Mapping[str, AnyNoise],
        initials: Sequence[Mapping[str, Prior]],
        process_noise: Mapping[str, Prior] | None,
        varies: Mapping[str, Variation] | None = None,
        latent: LatentProcesses = LatentProcesses(),
    ) -> "Problem":
        """Check every name and kind before anything compiles; the model is given without its latent processes."""
        process_noise = dict(process_noise or {})
        _check_priors(model, {name: prior for name, prior in priors.items() if not _of_diffusion(name)})
        _check_diffusion(latent.joined(model), priors)
        joined = latent.joined(model)
        for name in joined.law_names:
            if name in noise:
                raise InputError(
                    f"noise names {name!r}, which the {model.name} gives as a distribution, its noise included; leave "
                    "it out of noise."
                )
        noise = checked_noise(noise, joined.output_names)
        _check_forces(process_noise, tuple(model.coordinates))
        check_variations(model, priors, varies or {})
        for initial in initials:
            check_initial_names(model, initial)
            for name in model.physical_names:
                if name not in initial:
                    raise InputError(
                        f"initial has no entry for {name!r}; give a number if it is known, or dist.Normal(mean, sd)."
                    )
                if isinstance(initial[name], dist.Normal) or not isinstance(initial[name], dist.Distribution):
                    gaussian_moments(name, initial[name])
        given = [dict(i) for i in initials]
        every: dict[Any, Any] = {**dict(priors), **latent.quantities}
        own = model if latent else None
        return cls(joined, every, noise, given, process_noise, dict(varies or {}), latent, own)

    @property
    def given_model(self) -> Model:
        """As it was given, without coordinates for unknown inputs and drifts."""
        return self.own_model or self.model

    @property
    def given_priors(self) -> Priors:
        """As they were given, without those of hyperparameters."""
        return {
            name: prior for name, prior in dict[Any, Any](self.priors).items() if name not in self.latent.quantities
        }

    @property
    def diffusion_names(self) -> tuple[str, ...] | None:
        """The quantity that is the solver's diffusion of each coordinate; None where it is not a quantity."""
        if not any(map(_of_diffusion, self.priors)):
            return None
        own = {name: f"{DIFFUSION}.{name}" for name in self.model.coordinates}
        return tuple(each if each in self.priors else DIFFUSION for each in own.values())

    @property
    def disturbed(self) -> bool:
        """Whether there is white noise in the equations: process noise, or that behind unknown inputs and drifts."""
        return bool(self.process_noise) or bool(self.latent)

    @cached_property
    def space(self) -> ParameterSpace:
        """Everything that has a prior.

        Gaussian initial values are sampled as well: inside the filter they would be conditioned on the ODE, which
        would inform them where it should not (docs/decisions.md).
        """
        sampled: dict[Any, Any] = {}
        for given, prior in self.priors.items():
            if isinstance(prior, dist.Distribution):
                sampled |= dict.fromkeys(self._sites_of(given), prior)
        for varying in self._varying:
            if isinstance(self.varies[varying.name], dist.Distribution):
                sampled[varying.spread_name] = self.varies[varying.name]
            sampled[varying.deviations_name] = dist.Normal(np.zeros(varying.records), 1.0)
        sampled |= {n: p for n, p in quantities(self.noise).items() if isinstance(p, dist.Distribution)}
        sampled |= {f"process_noise.{n}": p for n, p in self.process_noise.items() if isinstance(p, dist.Distribution)}
        for r, initial in enumerate(self.initials):
            for name, prior in initial.items():
                if isinstance(prior, dist.Distribution):
                    sampled[self.initial_name(r, name)] = prior
        if not sampled:
            raise InputError("there is nothing to identify: every parameter, noise level and initial value is fixed.")
        return ParameterSpace.from_priors(sampled, self._varying)

    def _sites_of(self, name: Any) -> tuple[Any, ...]:
        """The names under which the prior of a parameter is sampled."""
        if isinstance(name, tuple) or not isinstance(self.varies.get(name), str):
            return (name,)
        return tuple(record_value(name, record) for record in range(len(self.initials)))

    @property
    def _varying(self) -> tuple[VaryingParameter, ...]:
        """Parameters with values around a common one."""
        priors: dict[Any, Any] = dict(self.priors)
        return tuple(
            VaryingParameter.of(name, priors[name], spread, len(self.initials))
            for name, spread in self.varies.items()
            if not isinstance(spread, str)
        )

    def parameter_name(self, record: int, parameter: str) -> str:
        """The name of a parameter's value on one record."""
        return record_value(parameter, record) if parameter in self.varies else parameter

    def initial_name(self, record: int, component: str) -> str:
        """The name of a sampled initial value in tables."""
        return f"initial.{component}" if len(self.initials) == 1 else f"initial[{record}].{component}"

    def roles(self, record: int) -> "QuantityRoles":
        """The roles of the quantities for one record."""
        model = self.model
        return QuantityRoles(
            parameters=tuple((name, self.parameter_name(record, name)) for name in model.parameter_names),
            noise=tuple(names_of(name, self.noise.get(name)) for name in model.output_names),
            initial=tuple(self.initial_name(record, name) for name in self.given_model.physical_names),
            process_noise=self._process_noise_names,
            latent=self.latent.processes,
            diffusion=self.diffusion_names,
        )

    @property
    def _process_noise_names(self) -> tuple[str | None, ...] | None:
        """By coordinate of the model without latent processes."""
        if not self.disturbed:
            return None
        own = self.given_model.coordinates
        return tuple(f"process_noise.{n}" if n in self.process_noise else None for n in own)

    def fixed(self, record: int) -> dict[str, Any]:
        """The value of every quantity that has no prior."""
        given: dict[Any, Any] = {f"noise.{n}": 0.0 for n in self.model.output_names} | quantities(self.noise)
        given |= {f"process_noise.{n}": v for n, v in self.process_noise.items()}
        given |= {self.initial_name(record, n): v for n, v in self.initials[record].items()}
        given |= self.priors
        return {n: np.asarray(v, dtype=float) for n, v in given.items() if not isinstance(v, dist.Distribution)}

    def particle(self, values: Mapping[str, Scalar], record: int) -> Particle:
        """One particle as the filter takes it, for one record."""
        return self.roles(record).particle({**self.fixed(record), **values})


@dataclass(frozen=True)
class QuantityRoles:
    """The role of each quantity in the filter, by name."""

    parameters: tuple[tuple[str, str], ...]
    """The model's name of each parameter, and the quantity that is its value on this record."""
    noise: tuple[str | NoiseNames, ...]
    """By output: the name of the level, or those of all quantities where the noise is not plainly Gaussian."""
    initial: tuple[str, ...]
    process_noise: tuple[str | None, ...] | None
    """None for a coordinate that has none, and for all."""
    latent: tuple[LatentProcess, ...] = ()
    """Their coordinates follow those of the model; their first values are not quantities, but part of the filter's
    state."""
    diffusion: tuple[str, ...] | None = None

    def particle(self, values: Mapping[str, Scalar]) -> Particle:
        starts = [sd for process in self.latent for sd in process.start(values)]
        levels = [level for process in self.latent for level in process.levels(values)]
        return Particle(
            parameters={name: values[quantity] for name, quantity in self.parameters},
            noise=[values[given] if isinstance(given, str) else given.of(values) for given in self.noise],
            initial_mean=[values[name] for name in self.initial] + [jnp.zeros(()) for _ in starts],
            initial_sd=[jnp.zeros(()) for _ in self.initial] + starts,
            process_noise=None
            if self.process_noise is None
            else [None if name is None else values[name] for name in self.process_noise] + levels,
            diffusion=None if self.diffusion is None else [values[name] for name in self.diffusion],
        )


def _check_priors(model: Model, priors: Priors) -> None:
    names = [n for key in priors for n in (key if isinstance(key, tuple) else (key,))]
    model.check_parameters(names)
    for name, prior in priors.items():
        if isinstance(prior, dist.Distribution):
            shape = tuple(prior.batch_shape + prior.event_shape)
            expected = (len(name),) if isinstance(name, tuple) else model.shapes.get(name, ())
            if shape != expected:
                raise InputError(f"the prior of {name!r} has shape {shape}; the {model.name} expects {expected}.")
        elif isinstance(name, tuple) or np.shape(prior) != model.shapes.get(name, ()) or not is_finite(prior):
            raise InputError(
                f"the prior of {name!r} is {prior!r}; it must be a distribution from probsysid.dist, such as "
                "dist.LogNormal(0, 1), or a finite number to fix it."
            )


def _of_diffusion(name: Any) -> bool:
    return isinstance(name, str) and (name == DIFFUSION or name.startswith(f"{DIFFUSION}."))


def _check_diffusion(model: Model, priors: Priors) -> None:
    """One for all coordinates, or one for each."""
    given = {str(name): prior for name, prior in dict[Any, Any](priors).items() if _of_diffusion(name)}
    each = [f"{DIFFUSION}.{name}" for name in model.coordinates]
    for name, prior in given.items():
        if name != DIFFUSION and name not in each:
            raise InputError(f"priors names {name!r}; known are: {', '.join([DIFFUSION, *each])}.")
        check_positive(repr(name), prior, name)
    missing = [name for name in each if name not in given]
    if given and missing and DIFFUSION not in given:
        raise InputError(f"priors has no {missing[0]!r}; give one for every coordinate, or {DIFFUSION!r} for all.")
    if DIFFUSION in given and len(given) > len(each):
        raise InputError(f"priors has {DIFFUSION!r} and one for every coordinate besides; leave one of them out.")


def _check_forces(given: Mapping[str, Prior], known: Sequence[str]) -> None:
    for name, value in given.items():
        if name not in known:
            hint = did_you_mean(name, known)
            raise InputError(f"process_noise names {name!r}; known are: {', '.join(known)}.{hint}")
        check_positive(f"process_noise of {name!r}", value, f"process_noise.{name}")
