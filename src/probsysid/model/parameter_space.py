"""Named quantities with priors, as one unconstrained vector.

Samplers move in an unbounded space, while a mass must stay positive.  numpyro's `biject_to` maps the whole real line to
the support of each prior, and the density in unconstrained coordinates carries the Jacobian of that map:

    log p(u) = log p(theta(u)) + log |d theta / d u|.

The numbers of the priors enter compiled functions as arguments: spaces with the same names and kinds of priors share
their compiled functions.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float

from probsysid._internal.array_types import Numbers
from probsysid._internal.errors import InputError
from probsysid._internal.jax_setup import check_jax
from probsysid._internal.packed_tree import TreeSpec
from probsysid.model.varying import VaryingParameter

Theta = Float[Array, "dimension particle"]
"""Particles in unconstrained coordinates."""

QuantityName = str | tuple[str, ...]
"""A tuple names several numbers with a joint prior."""

FreeVector = Float[Numbers, "dimension"]
"""One particle in unconstrained coordinates."""


@partial(jax.tree_util.register_dataclass, data_fields=["prior"], meta_fields=["name", "start"])
@dataclass(frozen=True, eq=False)
class PriorSite:
    """One prior: of a number, of an array, or of several numbers jointly (then `name` is a tuple)."""

    name: QuantityName
    prior: dist.Distribution
    start: int
    """Index of its first coordinate in the unconstrained vector."""

    @cached_property
    def transform(self) -> dist.transforms.Transform:
        """From unconstrained coordinates to the support of the prior."""
        return dist.biject_to(self.prior.support)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Shape of the constrained value."""
        return tuple(self.prior.batch_shape + self.prior.event_shape)

    @cached_property
    def free_shape(self) -> tuple[int, ...]:
        """Shape of the unconstrained value."""
        return tuple(self.transform.inverse_shape(self.shape))

    @cached_property
    def size(self) -> int:
        """Number of unconstrained coordinates."""
        return math.prod(self.free_shape)

    def sample(self, key: jax.Array, count: int) -> Float[Array, "size particle"]:
        """Draws from the prior, in unconstrained coordinates."""
        return self.transform.inv(self.prior.sample(key, (count,))).reshape(count, self.size).T

    def value(self, free: FreeVector) -> Array:
        """The constrained value of one particle."""
        return self.transform(free[self.start : self.start + self.size].reshape(self.free_shape))

    def log_density(self, free: FreeVector) -> Float[Array, ""]:
        """Log density of one particle in unconstrained coordinates."""
        part = free[self.start : self.start + self.size].reshape(self.free_shape)
        value = self.transform(part)
        jacobian = jnp.sum(self.transform.log_abs_det_jacobian(part, value))
        return jnp.sum(self.prior.log_prob(value)) + jacobian


@partial(jax.tree_util.register_dataclass, data_fields=["sites", "varying"], meta_fields=[])
@dataclass(frozen=True, eq=False)
class ParameterSpace:
    """All priors together: sampling, density and names of the particles."""

    sites: tuple[PriorSite, ...]
    varying: tuple[VaryingParameter, ...] = ()
    """Parameters with values around a common one, whose sites are those of deviations."""

    @classmethod
    def from_priors(
        cls, priors: Mapping[QuantityName, dist.Distribution], varying: tuple[VaryingParameter, ...] = ()
    ) -> "ParameterSpace":
        """Check the priors and lay them out one after the other."""
        sites: list[PriorSite] = []
        start = 0
        seen: set[str] = set()
        for name, prior in priors.items():
            _check_prior(name, prior)
            for single in name if isinstance(name, tuple) else (name,):
                if single in seen:
                    raise InputError(f"{single!r} has two priors.")
                seen.add(single)
            site = PriorSite(name, prior, start)
            sites.append(site)
            start += site.size
        return cls(tuple(sites), varying)

    def __getstate__(self) -> dict[str, Any]:
        """Without cached values: compiled functions and tree structures cannot be pickled."""
        return {"sites": self.sites, "varying": self.varying}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Also from files of versions that stored cached values."""
        object.__setattr__(self, "sites", state["sites"])
        object.__setattr__(self, "varying", state.get("varying", ()))

    @property
    def dimension(self) -> int:
        """Number of unconstrained coordinates."""
        return sum(site.size for site in self.sites)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The name of every quantity; those with a joint prior one by one, and values by record for deviations."""
        by_record: dict[QuantityName, tuple[str, ...]] = {v.deviations_name: v.record_names for v in self.varying}
        return tuple(
            name
            for site in self.sites
            for name in by_record.get(site.name, site.name if isinstance(site.name, tuple) else (site.name,))
        )

    def values(self, theta: Float[Numbers, "dimension particle"]) -> dict[str, Array]:
        """Constrained values by name, in the order in which the priors were given; particle axis last."""
        found = self.program(_values)(theta)  # JAX sorts dictionaries by key
        return {name: found[name] for name in self.names}

    def log_prior(self, theta: Float[Numbers, "dimension particle"]) -> Float[Array, " particle"]:
        """Log density in unconstrained coordinates."""
        return self.program(_log_prior)(theta)

    def program(
        self, function: Callable[..., Any], *static: Any, put: Callable[[Any], Any] = lambda numbers: numbers
    ) -> Callable[..., Any]:
        """`function(*static, space, ...)`, compiled, with this space bound.

        All spaces with the same names and kinds of priors share the compiled function; a space with a prior of a kind
        that numpyro does not define has its own.  `put` moves the numbers of the priors to the devices.
        """
        check_jax()
        if self._known:
            spec, numbers = self._packed
            return partial(_compiled, function, static, spec, put(numbers))
        if (function, *static) not in self._own:
            self._own[(function, *static)] = jax.jit(partial(function, *static, self))
        return self._own[(function, *static)]

    @cached_property
    def _packed(self) -> tuple[TreeSpec, Float[np.ndarray, "numbers"]]:
        """The kind of space, and the numbers in its priors.  Once: flattening numpyro's priors costs as much as
        evaluating them."""
        return TreeSpec.pack(self)

    @cached_property
    def _known(self) -> bool:
        """Whether the priors can be arguments of a shared compiled function."""
        return all(_of_numpyro(site.prior) for site in self.sites)

    @cached_property
    def _own(self) -> dict[tuple[Any, ...], Callable[..., Any]]:
        """Functions compiled for this space alone."""
        return {}

    def sample(self, key: jax.Array, count: int) -> Theta:
        """Draws from the prior, in unconstrained coordinates."""
        keys = jax.random.split(key, len(self.sites))
        drawn = {site.name: site.sample(k, count) for site, k in zip(self.sites, keys, strict=True)}
        if not self.varying:
            return jnp.concatenate(list(drawn.values()))
        values = jax.vmap(self._by_site, in_axes=-1, out_axes=-1)(jnp.concatenate(list(drawn.values())))
        for parameter in self.varying:
            given = drawn[parameter.deviations_name]
            drawn[parameter.deviations_name] = jnp.asarray(parameter.coordinates(values, given))
        return jnp.concatenate(list(drawn.values()))

    def values_of_one(self, free: FreeVector) -> dict[str, Array]:
        """Constrained values of one particle by name."""
        values = self._by_site(free)
        for parameter in self.varying:
            name = parameter.deviations_name
            values[name] = jnp.asarray(parameter.deviations(values, values[name]))
        return self.resolved(values)

    def _by_site(self, free: FreeVector) -> dict[str, Array]:
        """Constrained values as the sites have them: for deviations, the coordinates in place of them."""
        result: dict[str, Array] = {}
        for site in self.sites:
            value = site.value(free)
            if isinstance(site.name, tuple):
                result.update({name: value[i] for i, name in enumerate(site.name)})
            else:
                result[site.name] = value
        return result

    def resolved(self, values: dict[str, Any]) -> dict[str, Any]:
        """Values by site with those of the records in place of deviations; the particle axis, if any, is last."""
        for parameter in self.varying:
            values = parameter.resolved(values)
        return values

    def log_prior_of_one(self, free: FreeVector) -> Float[Array, ""]:
        """Log density of one particle in unconstrained coordinates."""
        deviations = {parameter.deviations_name: parameter for parameter in self.varying}
        plain = (site.log_density(free) for site in self.sites if site.name not in deviations)
        values = self._by_site(free) if self.varying else {}
        around = (jnp.asarray(parameter.log_density(values, values[name])) for name, parameter in deviations.items())
        return sum((*plain, *around), start=jnp.zeros(()))


def _values(space: ParameterSpace, theta: Theta) -> dict[str, Array]:
    return jax.vmap(space.values_of_one, in_axes=-1, out_axes=-1)(theta)


def _log_prior(space: ParameterSpace, theta: Theta) -> Float[Array, " particle"]:
    return jax.vmap(space.log_prior_of_one, in_axes=-1)(theta)


@partial(jax.jit, static_argnums=(0, 1, 2))
def _compiled(
    function: Callable[..., Any], static: tuple[Any, ...], spec: TreeSpec, numbers: Numbers, *arguments: Any
) -> Any:
    return function(*static, spec.unpack(numbers), *arguments)


def _of_numpyro(part: dist.Distribution | dist.transforms.Transform) -> bool:
    """Whether a prior, with every prior and transform inside it, can be flattened and rebuilt in a compiled function.

    A class defined by the user may hold numbers in attributes that JAX does not see.  A transform with numbers derives
    its codomain from them (multiplication by -1 maps positive to negative values), which needs their values while
    tracing.
    """

    def is_part(node: object) -> bool:
        return node is not part and isinstance(node, dist.Distribution | dist.transforms.Transform)

    nodes = jax.tree.leaves(part, is_leaf=is_part)
    if not type(part).__module__.startswith("numpyro.") or (isinstance(part, dist.transforms.Transform) and nodes):
        return False
    return all(_of_numpyro(node) for node in nodes if is_part(node))


def _check_prior(name: QuantityName, prior: object) -> None:
    if not isinstance(prior, dist.Distribution):
        raise InputError(
            f"the prior of {name!r} is {prior!r}; it must be a distribution from probsysid.dist, such as "
            "dist.LogNormal(0, 1)."
        )
    if getattr(prior, "is_discrete", False) or prior.support.is_discrete:
        raise InputError(f"the prior of {name!r} is discrete ({type(prior).__name__}); it must be continuous.")
    for parameter in prior.arg_constraints:
        value = getattr(prior, parameter, None)
        if value is not None and not bool(jnp.all(jnp.isfinite(jnp.asarray(value)))):
            raise InputError(f"the prior of {name!r} has {parameter} = {value}; it must be finite.")
    try:
        dist.biject_to(prior.support)
    except NotImplementedError:
        raise InputError(
            f"the prior of {name!r} ({type(prior).__name__}) has a support that cannot be unbounded."
        ) from None
    if isinstance(name, tuple):
        shape = tuple(prior.batch_shape + prior.event_shape)
        if shape != (len(name),):
            raise InputError(f"the joint prior of {name!r} has shape {shape}; it must be ({len(name)},).")
