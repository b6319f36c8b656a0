"""Unknown inputs and drifting parameters: Gaussian processes that join the model as coordinates with process noise.

A kernel is a linear stochastic differential equation (`kernels.py`).  Its components become coordinates of the model,
with its equation as dynamics, its white noise as their process noise and its stationary distribution as their initial
state.  An unknown input is then a sum of coordinates, and a drifting parameter is k exp(z) where it is positive, k + z
elsewhere.  Filter, smoother, pilot and predictions need to know nothing more (docs/decisions.md).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import jax.numpy as jnp
import numpyro.distributions as dist

from probsysid._internal.errors import InputError, did_you_mean
from probsysid.model.components import derivative_name
from probsysid.model.kernels import Kernel, LinearSDE, Part, RandomWalk
from probsysid.model.model import Model
from probsysid.model.namespaces import Namespace, OverlaidNamespace
from probsysid.model.priors import Prior, Priors
from probsysid.model.varying import support_bounds

DRIFT = "{}_drift"
"""The coordinate behind a drifting parameter."""


@dataclass(frozen=True)
class LatentProcess:
    """The structure of one process: all but its priors, so that it can be hashed."""

    name: str
    """Of the input, or of the parameter that drifts."""
    kernel: Kernel
    """With ones in place of priors."""
    drift: bool = False
    relative: bool = False
    """Whether it is the logarithm of the parameter that drifts."""

    @cached_property
    def part_names(self) -> tuple[str, ...]:
        """The prefix of each part's hyperparameters: `force`, or `force.matern` and `force.constant` of a sum."""
        kinds = [type(part).__name__.lower() for part in self.kernel.parts]
        if len(kinds) == 1:
            return (self.name,)
        numbers = [kinds[: i + 1].count(kind) for i, kind in enumerate(kinds)]
        pairs = zip(kinds, numbers, strict=True)
        return tuple(f"{self.name}.{kind}" + (f"_{n}" if n > 1 else "") for kind, n in pairs)

    def quantity_names(self, part: Part, prefix: str) -> dict[str, str]:
        """The names of a part's hyperparameters in tables."""
        return {f"{prefix}.{name}": name for name in part.hyperparameters}

    def equation(self, values: Any) -> LinearSDE:
        """For values of all quantities by name."""
        given = [
            {name: values[quantity] for quantity, name in self.quantity_names(part, prefix).items()}
            for part, prefix in zip(self.kernel.parts, self.part_names, strict=True)
        ]
        return self.kernel.sde(given)

    @cached_property
    def orders(self) -> tuple[int, ...]:
        """Of the coordinates."""
        names = [
            n
            for p, prefix in zip(self.kernel.parts, self.part_names, strict=True)
            for n in self.quantity_names(p, prefix)
        ]
        return self.equation(dict.fromkeys(names, 1.0)).orders

    @cached_property
    def coordinates(self) -> dict[str, int]:
        """Name and order of each coordinate: `force`, or `force_1`, `force_2`."""
        base = DRIFT.format(self.name) if self.drift else self.name
        names = [base] if len(self.orders) == 1 else [f"{base}_{i + 1}" for i in range(len(self.orders))]
        return dict(zip(names, self.orders, strict=True))

    @cached_property
    def components(self) -> tuple[str, ...]:
        """The physical components."""
        return tuple(derivative_name(name, i) for name, order in self.coordinates.items() for i in range(order))

    def value(self, s: Any, p: Any) -> Any:
        """The input, or the parameter, in a state."""
        equation = self.equation(p)
        terms = [weight * s[c] for weight, c in zip(equation.readout, self.components, strict=True) if weight]
        total = sum(terms, start=jnp.zeros(()) if equation.constant is None else equation.constant)
        if not self.drift:
            return total
        return p[self.name] * jnp.exp(total) if self.relative else p[self.name] + total

    def rates(self, s: Any, p: Any) -> dict[str, Any]:
        """The highest derivative of each coordinate."""
        rows = iter(self.equation(p).drift)
        found = {}
        for name, order in self.coordinates.items():
            *_, row = (next(rows) for _ in range(order))
            terms = [a * s[c] for a, c in zip(row, self.components, strict=True) if a is not None]
            found[name] = sum(terms, start=jnp.zeros(()))
        return found

    def levels(self, values: Mapping[str, Any]) -> list[Any]:
        """Process noise of each coordinate, None where it has none."""
        levels = iter(self.equation(values).levels)
        return [[next(levels) for _ in range(order)][-1] for order in self.orders]

    def start(self, values: Mapping[str, Any]) -> list[Any]:
        """Standard deviation of each component at the first sample, where its mean is zero."""
        return list(self.equation(values).start)


@dataclass(frozen=True, eq=False)
class LatentProcesses:
    """Unknown inputs and drifts with their priors."""

    unknown: Mapping[str, Kernel] = field(default_factory=dict)
    drifts: Mapping[str, Kernel] = field(default_factory=dict)
    measured: tuple[str, ...] = ()
    """Unknown inputs that are measured with noise, as an output of the same name."""
    processes: tuple[LatentProcess, ...] = ()

    @classmethod
    def make(
        cls,
        model: Model,
        priors: Priors,
        unknown: Mapping[str, Kernel],
        drifts: Mapping[str, Kernel],
        measured: Sequence[str] = (),
    ) -> "LatentProcesses":
        """Check names and kinds."""
        _check_kernels("unknown", unknown, model.input_names, "input")
        _check_kernels("drifts", drifts, model.parameter_names, "parameter")
        for name in measured:
            if name in model.output_names:
                raise InputError(
                    f"the unknown input {name!r} is measured, but the {model.name} has an output {name!r}."
                )
        found = [LatentProcess(name, kernel.form()) for name, kernel in unknown.items()]
        for name, kernel in drifts.items():
            relative = _relative(model, name, dict(priors).get(name))
            for part in kernel.parts:
                if isinstance(part, RandomWalk) and part.start != 0.0:
                    raise InputError(f"drifts of {name!r} has a start; where {name!r} starts is said by its prior.")
            found.append(LatentProcess(name, kernel.form(), drift=True, relative=relative))
        return cls(dict(unknown), dict(drifts), tuple(measured), tuple(found))

    def __bool__(self) -> bool:
        return bool(self.processes)

    @cached_property
    def quantities(self) -> dict[str, Prior]:
        """Priors, or numbers, of all hyperparameters by name."""
        kernels = [*self.unknown.values(), *self.drifts.values()]
        found: dict[str, Prior] = {}
        for process, kernel in zip(self.processes, kernels, strict=True):
            for part, prefix in zip(kernel.parts, process.part_names, strict=True):
                names = process.quantity_names(part, prefix)
                found |= {quantity: part.hyperparameters[name] for quantity, name in names.items()}
        return found

    def joined(self, model: Model) -> Model:
        """The model with the processes as coordinates; the same one for the same model, so that programs are shared."""
        return _joined(model, self.processes, self.measured) if self else model


@lru_cache(maxsize=64)
def _joined(model: Model, processes: tuple[LatentProcess, ...], measured: tuple[str, ...]) -> Model:
    functions = JoinedFunctions(model, processes, measured)
    coordinates = dict(model.coordinates)
    for process in processes:
        for name, order in process.coordinates.items():
            if name in coordinates:
                kind = "drifting parameter" if process.drift else "unknown input"
                raise InputError(
                    f"the {kind} {process.name!r} needs a coordinate {name!r}, which the model has already."
                )
            coordinates[name] = order
    units = {c: model.units[p.name] for p in processes for c in p.coordinates if not p.drift and p.name in model.units}
    return Model(
        coordinates,
        functions.dynamics,
        functions.outputs,
        shapes=model.shapes,
        units={**model.units, **units},
        name=model.name,
        diffusion=None if model.diffusion is None else functions.diffusion,
    )


@dataclass(frozen=True, eq=False)
class JoinedFunctions:
    """Dynamics and outputs of a model with its latent processes."""

    model: Model
    processes: tuple[LatentProcess, ...]
    measured: tuple[str, ...]

    def dynamics(self, s: Any, u: Any, p: Any) -> dict[str, Any]:
        values = self._values(s, p)
        found = dict(self.model.dynamics(self._own(s, self.model.physical_names), *self._given(values, u, p)))
        for process in self.processes:
            found |= process.rates(s, p)
        return found

    def outputs(self, s: Any, u: Any, p: Any) -> dict[str, Any]:
        values = self._values(s, p)
        own = self._own(s, (*self.model.physical_names, *self.model.highest_names))
        assert self.model.outputs is not None
        return dict(self.model.outputs(own, *self._given(values, u, p))) | {
            name: values[name] for name in self.measured
        }

    def diffusion(self, s: Any, u: Any, p: Any) -> dict[str, Any]:
        assert self.model.diffusion is not None
        values, own = self._values(s, p), self._own(s, self.model.physical_names)
        return dict(self.model.diffusion(own, *self._given(values, u, p)))

    def _values(self, s: Any, p: Any) -> dict[str, Any]:
        return {process.name: process.value(s, p) for process in self.processes}

    def _own(self, s: Any, names: Sequence[str]) -> Namespace:
        """What the model itself sees of the state."""
        return Namespace("state", {name: s[name] for name in names})

    def _given(self, values: Mapping[str, Any], u: Any, p: Any) -> Iterator[OverlaidNamespace]:
        """Inputs and parameters with the processes' values in place of those that are unknown."""
        for kind, rest, drift in (("input", u, False), ("parameter", p, True)):
            own = {process.name: values[process.name] for process in self.processes if process.drift == drift}
            yield OverlaidNamespace(kind, own, rest)


def _check_kernels(which: str, given: Mapping[str, Any], known: Sequence[str], kind: str) -> None:
    for name, kernel in given.items():
        if name not in known:
            listed, hint = ", ".join(known) or "none", did_you_mean(str(name), known)
            raise InputError(f"{which} names {name!r}; the model's {kind}s are: {listed}.{hint}")
        if not isinstance(kernel, Kernel):
            example = "RandomWalk(rate=...)" if which == "drifts" else "Matern(1.5, scale=..., length=...)"
            raise InputError(f"{which} of {name!r} is {kernel!r}; it must be a kernel such as {example}.")


def _relative(model: Model, name: str, prior: Any) -> bool:
    """Whether a drifting parameter is positive, so that its logarithm drifts."""
    if model.shapes.get(name, ()) != ():
        raise InputError(f"drifts names {name!r}, which is an array; only parameters that are numbers can drift.")
    if prior is None:
        raise InputError(f"drifts names {name!r}; give {name!r} a prior of its own, or a number, for its first value.")
    return support_bounds(name, prior)[0] >= 0 if isinstance(prior, dist.Distribution) else bool(prior > 0)
