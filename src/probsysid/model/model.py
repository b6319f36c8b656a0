"""An ordinary differential equation with unknown constants, and what is measured of it.

A model is written once, for plain numbers::

    duffing = Model(
        coordinates={"x": 2},
        dynamics=lambda s, u, p: {"x": (u.force - p.c * s.dx - p.k * s.x - p.k3 * s.x**3) / p.m},
        outputs=lambda s, u, p: {"position": s.x},
    )

It is checked at construction by abstract evaluation: nothing is computed and nothing compiled, yet names that do not
exist, wrong keys and wrong shapes are found and reported by name.
"""

import keyword
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
from jax.errors import ConcretizationTypeError, TracerArrayConversionError
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun
from jaxtyping import Array, Float

from probsysid._internal.array_types import Numbers, Scalar
from probsysid._internal.errors import InputError, did_you_mean
from probsysid._internal.jax_setup import check_jax
from probsysid._internal.notebook import html
from probsysid._internal.validation import check_mapping
from probsysid.model import laws
from probsysid.model.components import derivative_name
from probsysid.model.namespaces import Namespace, RecordingNamespace, used_names
from probsysid.model.sparsity import SparsityPattern, sparsity_pattern

ModelFunction = Callable[[Any, Any, Any], Mapping[str, Any]]
"""`function(s, u, p)`, of the state, the inputs and the parameters."""

MAX_ORDER = 8


@dataclass(frozen=True, eq=False)
class Model:
    """Coordinates, their equations of motion, and the measured outputs.

    Args:
        coordinates: name of each coordinate and the order of its ODE, e.g. `{"x": 2, "z": 1}`.
        dynamics: `dynamics(s, u, p)` returns, for each coordinate, its highest derivative.  `s` holds the lower
            derivatives (`s.x`, `s.dx` for order 2), `u` the inputs, `p` the parameters.  Use `jax.numpy` functions.
        outputs: `outputs(s, u, p)` returns the measured quantities by name; here `s` also holds the highest
            derivative (`s.ddx`), since accelerometers are the usual sensor.  Default: every coordinate itself.
        shapes: shapes of parameters that are not plain numbers, e.g. `{"weights": (3,)}`.
        units: units of parameters, inputs, outputs or coordinates by name, for tables and plots.
        name: the model's name in reports.
        diffusion: `diffusion(s, u, p)` returns, by coordinate, the factor of a Wiener process in the equation of its
            highest physical derivative, d x^(n-1) = f dt + g dW, which may depend on the state; or several by name,
            `{"x": {"birth": ..., "death": ...}}`, of which coordinates that name the same one share it.

    Outputs may be distributions, `{"count": dist.Poisson(s.x)}`.  A model with these or with a diffusion is identified
    with particle filters (`ParticleFilter`).  The names of parameters and inputs are found by calling the functions
    with abstract values.
    """

    coordinates: Mapping[str, int]
    dynamics: ModelFunction
    outputs: ModelFunction | None = None
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    name: str = "model"
    diffusion: ModelFunction | None = None
    parameter_names: tuple[str, ...] = field(init=False)
    input_names: tuple[str, ...] = field(init=False)
    output_names: tuple[str, ...] = field(init=False)
    law_names: tuple[str, ...] = field(init=False)
    """Outputs that are distributions."""
    wiener_names: tuple[str, ...] = field(init=False)
    """Wiener processes of the diffusion."""

    def __post_init__(self) -> None:
        check_jax()
        check_mapping("coordinates", self.coordinates, "{'x': 2}")
        object.__setattr__(self, "coordinates", dict(self.coordinates))
        check_mapping("shapes", self.shapes, "{'weights': (3,)}")
        check_mapping("units", self.units, "{'m': 'kg'}")
        _check_coordinates(self.coordinates)
        _check_callable("dynamics", self.dynamics)
        if self.outputs is None:
            object.__setattr__(self, "outputs", _coordinates_themselves(tuple(self.coordinates)))
        _check_callable("outputs", self.outputs)
        used_p: list[str] = []
        used_u: list[str] = []
        dynamics = self._probe("dynamics", used_u, used_p)
        _check_keys("dynamics", dynamics, tuple(self.coordinates))
        found_laws: list[str] = []
        outputs = self._probe("outputs", used_u, used_p, found_laws)
        if self.diffusion is not None:
            _check_callable("diffusion", self.diffusion)
        wieners = {} if self.diffusion is None else self._probe("diffusion", used_u, used_p)
        if not outputs:
            raise InputError("outputs returned no output; return at least one, such as {'position': s.x}.")
        object.__setattr__(self, "parameter_names", tuple(used_p))
        object.__setattr__(self, "input_names", tuple(used_u))
        object.__setattr__(self, "output_names", tuple(outputs))
        object.__setattr__(self, "law_names", tuple(found_laws))
        object.__setattr__(self, "wiener_names", tuple(wieners))

    # Names

    @cached_property
    def physical_names(self) -> tuple[str, ...]:
        """The components that need an initial value: every derivative below the order of its coordinate."""
        return tuple(derivative_name(c, i) for c, order in self.coordinates.items() for i in range(order))

    @cached_property
    def highest_names(self) -> tuple[str, ...]:
        """The derivatives that the dynamics return, one per coordinate."""
        return tuple(derivative_name(c, order) for c, order in self.coordinates.items())

    @property
    def orders(self) -> tuple[int, ...]:
        """The order of the ODE of each coordinate."""
        return tuple(self.coordinates.values())

    # Evaluation for one particle: scalars in, scalars out

    def highest_derivatives(
        self, physical: Sequence[Scalar], inputs: Sequence[Scalar], parameters: Mapping[str, Scalar]
    ) -> list[Float[Numbers, ""]]:
        """The dynamics at one point, in the order of the coordinates."""
        return self._evaluate(self._dynamics_program, physical, inputs, parameters)

    def measured(
        self,
        physical: Sequence[Scalar],
        highest: Sequence[Scalar],
        inputs: Sequence[Scalar],
        parameters: Mapping[str, Scalar],
    ) -> list[Float[Numbers, ""]]:
        """The outputs at one point, in the order of `output_names`."""
        return self._evaluate(self._outputs_program, (*physical, *highest), inputs, parameters)

    def laws_at(
        self,
        physical: Sequence[Scalar],
        highest: Sequence[Scalar],
        inputs: Sequence[Scalar],
        parameters: Mapping[str, Scalar],
    ) -> dict[str, Any]:
        """The outputs that are distributions, at one point."""
        state = dict(zip((*self.physical_names, *self.highest_names), (*physical, *highest), strict=True))
        assert self.outputs is not None
        values = self.outputs(Namespace("state", state), self._inputs(inputs), Namespace("parameter", parameters))
        return {name: values[name] for name in self.law_names}

    def diffusion_columns(
        self, physical: Sequence[Scalar], inputs: Sequence[Scalar], parameters: Mapping[str, Scalar]
    ) -> laws.Columns:
        """The factors of each Wiener process at one point, by the coordinates that it pushes."""
        if self.diffusion is None:
            return {}
        s = Namespace("state", dict(zip(self.physical_names, physical, strict=True)))
        return laws.columns_of(
            self.diffusion(s, self._inputs(inputs), Namespace("parameter", parameters)), tuple(self.coordinates)
        )

    @property
    def needs_particle_filter(self) -> bool:
        """Whether its likelihood is not Gaussian sample by sample: noise that depends on the state, or outputs that are
        distributions."""
        return self.diffusion is not None or bool(self.law_names)

    def _derivatives(
        self, state: Sequence[Scalar], inputs: Sequence[Scalar], parameters: Mapping[str, Scalar]
    ) -> list[Scalar]:
        s = Namespace("state", dict(zip(self.physical_names, state, strict=True)))
        values = self.dynamics(s, self._inputs(inputs), Namespace("parameter", parameters))
        return [jnp.asarray(values[name], dtype=float) for name in self.coordinates]

    def _measurements(
        self, state: Sequence[Scalar], inputs: Sequence[Scalar], parameters: Mapping[str, Scalar]
    ) -> list[Scalar]:
        s = Namespace("state", dict(zip((*self.physical_names, *self.highest_names), state, strict=True)))
        assert self.outputs is not None
        values = self.outputs(s, self._inputs(inputs), Namespace("parameter", parameters))
        return [jnp.asarray(laws.mean_of(values[name]), dtype=float) for name in self.output_names]

    def _evaluate(
        self, program: ClosedJaxpr, state: Sequence[Scalar], inputs: Sequence[Scalar], parameters: Mapping[str, Scalar]
    ) -> list[Float[Numbers, ""]]:
        """A model function by its recorded operations.

        The filter evaluates it and its derivatives hundreds of times while it is traced; running the user's Python
        code each time would take longer than the compilation.
        """
        used = {name: parameters[name] for name in self.parameter_names}
        given = [jnp.asarray(leaf, dtype=float) for leaf in jax.tree.leaves((list(state), list(inputs), used))]
        return list(jaxpr_as_fun(program)(*given))

    @cached_property
    def _dynamics_program(self) -> ClosedJaxpr:
        """The operations of the dynamics."""
        return self._recorded(self._derivatives, len(self.physical_names))

    @cached_property
    def _outputs_program(self) -> ClosedJaxpr:
        """The operations of the outputs."""
        return self._recorded(self._measurements, len(self.physical_names) + len(self.highest_names))

    @property
    def programs(self) -> tuple[ClosedJaxpr, ClosedJaxpr]:
        """The operations of the dynamics and of the outputs, for files."""
        return self._dynamics_program, self._outputs_program

    def _recorded(self, function: Callable[..., list[Scalar]], components: int) -> ClosedJaxpr:
        state = [jax.ShapeDtypeStruct((), float) for _ in range(components)]
        return jax.make_jaxpr(function)(state, self._abstract_inputs(), self._abstract_parameters())

    def _repr_html_(self) -> str:
        from probsysid.model.model_card import model_card

        return html(model_card(self))

    def __repr__(self) -> str:
        orders = ", ".join(f"{name} (order {order})" for name, order in self.coordinates.items())
        parts = [f"coordinates: {orders}", f"parameters: {', '.join(self.parameter_names)}"]
        parts += [f"inputs: {', '.join(self.input_names)}"] if self.input_names else []
        parts.append(f"outputs: {', '.join(self.output_names)}")
        return f"Model({self.name!r}, {'; '.join(parts)})"

    def __getstate__(self) -> dict[str, Any]:
        """Without the recorded operations, which cannot be pickled."""
        recorded = ("_dynamics_program", "_outputs_program")
        return {name: value for name, value in self.__dict__.items() if name not in recorded}

    @property
    def operations(self) -> int:
        """Operations that one evaluation of the dynamics takes."""
        return len(self._dynamics_program.jaxpr.eqns)

    @cached_property
    def dynamics_sparsity(self) -> SparsityPattern:
        """Which physical components the equation of each coordinate can depend on."""
        count = len(self.physical_names)

        def equations(
            inputs: Sequence[Scalar], parameters: Mapping[str, Scalar], *physical: Scalar
        ) -> Sequence[Scalar]:
            return self.highest_derivatives(physical, inputs, parameters)

        return sparsity_pattern(equations, self._abstract_inputs(), self._abstract_parameters(), count=count)

    @cached_property
    def outputs_sparsity(self) -> SparsityPattern:
        """Which physical components and highest derivatives each output can depend on."""
        split = len(self.physical_names)

        def equations(inputs: Sequence[Scalar], parameters: Mapping[str, Scalar], *state: Scalar) -> Sequence[Scalar]:
            return self.measured(state[:split], state[split:], inputs, parameters)

        count = split + len(self.highest_names)
        return sparsity_pattern(equations, self._abstract_inputs(), self._abstract_parameters(), count=count)

    # Checks against priors and records

    def check_parameters(self, names: Iterable[str], where: str = "priors") -> None:
        """Raise unless `names` are exactly the parameters that the model uses."""
        _check_names(names, self.parameter_names, kind="parameter", where=where, model=self.name)

    def check_inputs(self, names: Iterable[str]) -> None:
        """Raise unless every input that the model uses is in the record."""
        missing = [name for name in self.input_names if name not in set(names)]
        if missing:
            listed = ", ".join(names) or "none"
            hint = did_you_mean(missing[0], list(names))
            raise InputError(f"the model uses the input {missing[0]!r}, the record's inputs are: {listed}.{hint}")

    def _inputs(self, values: Sequence[Scalar]) -> Namespace:
        return Namespace("input", dict(zip(self.input_names, values, strict=True)))

    def _abstract_inputs(self) -> list[jax.ShapeDtypeStruct]:
        return [jax.ShapeDtypeStruct((), float) for _ in self.input_names]

    def _abstract_parameters(self) -> dict[str, jax.ShapeDtypeStruct]:
        return {p: jax.ShapeDtypeStruct(self.shapes.get(p, ()), float) for p in self.parameter_names}

    def _probe(
        self, which: str, used_inputs: list[str], used_parameters: list[str], found_laws: list[str] | None = None
    ) -> dict[str, jax.ShapeDtypeStruct]:
        """The shape of each entry that a model function returns; the names it uses, and of outputs those that are
        distributions, are added to the lists."""
        function = getattr(self, which)
        names = (*self.physical_names, *self.highest_names) if which == "outputs" else self.physical_names
        keys: list[str] = []  # in the order of the user's dictionary: JAX sorts dictionaries by key

        def call(number: Any) -> dict[str, Any]:
            s = Namespace("state", dict.fromkeys(names, number))
            u = RecordingNamespace("input", {}, number)
            shaped = {name: jnp.broadcast_to(number, shape) for name, shape in self.shapes.items()}
            p = RecordingNamespace("parameter", shaped, number)
            values = function(s, u, p)
            if not isinstance(values, Mapping):
                raise InputError(
                    f"{which} must return a dictionary by name, such as {{{names[0]!r}: ...}}; "
                    f"it returned {type(values).__name__}."
                )
            used_inputs.extend(name for name in used_names(u) if name not in used_inputs)
            used_parameters.extend(name for name in used_names(p) if name not in used_parameters)
            if which == "diffusion":
                values = {process: 0.0 for process in laws.columns_of(values, tuple(self.coordinates))}
            elif found_laws is not None:
                found_laws.extend(laws.law_names(values))
            keys.extend(str(key) for key in values)
            return {str(key): _as_number(which, key, laws.mean_of(value)) for key, value in values.items()}

        try:
            shapes = jax.eval_shape(call, jax.ShapeDtypeStruct((), float))
            return {key: shapes[key] for key in keys}
        except InputError as error:
            raise InputError(f"{which}: {error}") if not str(error).startswith(which) else error from None
        except (ConcretizationTypeError, TracerArrayConversionError) as error:
            raise InputError(
                f"{which} needs the value of a variable while it is being traced (a Python if, float(...), or a "
                "NumPy function); use jax.numpy functions, and jnp.where in place of if."
            ) from error


def _coordinates_themselves(names: tuple[str, ...]) -> ModelFunction:
    return lambda s, u, p: {name: s[name] for name in names}


def _check_coordinates(coordinates: Mapping[str, int]) -> None:
    if not coordinates:
        raise InputError("coordinates is empty; name at least one, such as {'x': 2}.")
    for name, order in coordinates.items():
        if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
            raise InputError(f"the coordinate name {name!r} is not a valid Python name.")
        if isinstance(order, bool) or not isinstance(order, int) or not 1 <= order <= MAX_ORDER:
            raise InputError(
                f"coordinate {name!r} has order {order!r}; it must be a whole number from 1 to {MAX_ORDER}."
            )
    seen: dict[str, str] = {}
    for name, order in coordinates.items():
        for i in range(order + 1):
            derived = derivative_name(name, i)
            if derived in seen:
                raise InputError(
                    f"coordinates {seen[derived]!r} and {name!r} both have a component called {derived!r}."
                )
            seen[derived] = name


def _check_callable(which: str, function: object) -> None:
    if not callable(function):
        raise InputError(f"{which} must be a function of (s, u, p), not {type(function).__name__}.")


def _check_keys(which: str, found: Iterable[str], expected: Sequence[str]) -> None:
    found = list(found)
    missing = [name for name in expected if name not in found]
    extra = [name for name in found if name not in expected]
    if missing or extra:
        problems = []
        if missing:
            problems.append(f"has no entry for {', '.join(map(repr, missing))}")
        if extra:
            problems.append(f"has {', '.join(map(repr, extra))}, not a coordinate")
        raise InputError(
            f"{which} returned a dictionary that {' and '.join(problems)}; coordinates are: {', '.join(expected)}."
        )


def _check_names(names: Iterable[str], expected: Sequence[str], *, kind: str, where: str, model: str) -> None:
    names = list(names)
    for name in expected:
        if name not in names:
            raise InputError(
                f"{where} has no entry for the {kind} {name!r} that the {model} uses.{did_you_mean(name, names)}"
            )
    for name in names:
        if name not in expected:
            hint = did_you_mean(name, list(expected))
            raise InputError(f"{where} has an entry {name!r}, which the {model} does not use as a {kind}.{hint}")


def _as_number(which: str, key: object, value: Any) -> Float[Array, ""]:
    try:
        value = jnp.asarray(value)
    except (TypeError, ValueError) as error:
        raise InputError(f"{which} returned {type(value).__name__} for {key!r}; it must be a number.") from error
    if value.shape != ():
        raise InputError(f"{which} returned shape {value.shape} for {key!r}; it must be a single number, shape ().")
    if jnp.issubdtype(value.dtype, jnp.complexfloating):
        raise InputError(f"{which} returned a complex number for {key!r}; it must be real.")
    return value.astype(float)
