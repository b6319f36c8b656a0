"""Named quantities with priors, as one vector without constraints.

A sampler wants to move freely; a mass must stay positive.  Each prior's support is mapped to the whole real line by
`biject_to`, and the density on the line carries the Jacobian of that map:

    log p(u) = log p(theta(u)) + log |d theta / d u|.

Priors enter compiled programs as arguments: spaces with the same names and kinds of priors share their programs,
whatever the numbers in them.
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

from probsysid._internal.errors import InputError
from probsysid._internal.packed_tree import TreeSpec

Theta = Float[Array, "dimension particle"]
"""Particles in unconstrained coordinates."""

QuantityName = str | tuple[str, ...]


@partial(jax.tree_util.register_dataclass, data_fields=["prior"], meta_fields=["name", "start"])
@dataclass(frozen=True, eq=False)
class PriorSite:
    """One prior: of a number, of an array, or of several numbers jointly (then `name` is a tuple)."""

    name: QuantityName
    prior: Any
    start: int

    @cached_property
    def transform(self) -> Any:
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
        return math.prod(self.free_shape)

    def sample(self, key: Any, count: int) -> Float[Array, "size particle"]:
        return self.transform.inv(self.prior.sample(key, (count,))).reshape(count, self.size).T

    def value(self, free: Any) -> Any:
        return self.transform(free[self.start : self.start + self.size].reshape(self.free_shape))

    def log_density(self, free: Any) -> Any:
        part = free[self.start : self.start + self.size].reshape(self.free_shape)
        value = self.transform(part)
        jacobian = jnp.sum(self.transform.log_abs_det_jacobian(part, value))
        return jnp.sum(self.prior.log_prob(value)) + jacobian


@partial(jax.tree_util.register_dataclass, data_fields=["sites"], meta_fields=[])
@dataclass(frozen=True, eq=False)
class ParameterSpace:
    """All sites together: sampling, density and names of the particles."""

    sites: tuple[PriorSite, ...]

    @classmethod
    def from_priors(cls, priors: Mapping[QuantityName, Any]) -> "ParameterSpace":
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
        return cls(tuple(sites))

    def __getstate__(self) -> dict[str, Any]:
        """Without what is cached: the index of its kind means something else, or nothing, in another process."""
        return {"sites": self.sites}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """From files of versions that kept it, too."""
        object.__setattr__(self, "sites", state["sites"])

    @property
    def dimension(self) -> int:
        return sum(site.size for site in self.sites)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Every quantity by its own name, joint ones one by one."""
        return tuple(n for site in self.sites for n in (site.name if isinstance(site.name, tuple) else (site.name,)))

    def values(self, theta: Any) -> dict[str, Any]:
        """Constrained values by name, in the order in which the priors were given; particle axis last."""
        found = self.program(_values)(theta)  # JAX sorts the names
        return {name: found[name] for name in self.names}

    def log_prior(self, theta: Any) -> Float[Array, " particle"]:
        """Log density in unconstrained coordinates."""
        return self.program(_log_prior)(theta)

    def program(
        self, function: Callable[..., Any], *static: Any, put: Callable[[Any], Any] = lambda numbers: numbers
    ) -> Callable[..., Any]:
        """`function(*static, space, ...)` compiled, for this space: with the programs of all spaces like it or, where a
        prior is of a kind that numpyro does not know, with one of its own.  `put` brings the numbers of the priors to
        where the programs run."""
        if self._known:
            kind, numbers = self._taken_apart
            return partial(_compiled, function, static, kind, put(numbers))
        if (function, *static) not in self._own:
            self._own[(function, *static)] = jax.jit(partial(function, *static, self))
        return self._own[(function, *static)]

    @cached_property
    def _taken_apart(self) -> tuple[int, np.ndarray]:
        """The kind of space, and the numbers in its priors.  Taking numpyro's priors apart costs as much as evaluating
        them, so it is done once."""
        form, numbers = TreeSpec.of(self)
        if form not in _KINDS:
            _KINDS.append(form)
        return _KINDS.index(form), numbers

    @cached_property
    def _known(self) -> bool:
        return all(_of_numpyro(site.prior) for site in self.sites)

    @cached_property
    def _own(self) -> dict[Any, Any]:
        return {}

    def sample(self, key: Any, count: int) -> Theta:
        """Draws from the prior."""
        keys = jax.random.split(key, len(self.sites))
        return jnp.concatenate([site.sample(k, count) for site, k in zip(self.sites, keys, strict=True)])

    def values_of_one(self, free: Any) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for site in self.sites:
            value = site.value(free)
            if isinstance(site.name, tuple):
                result.update({name: value[i] for i, name in enumerate(site.name)})
            else:
                result[site.name] = value
        return result

    def log_prior_of_one(self, free: Any) -> Any:
        return sum((site.log_density(free) for site in self.sites), start=jnp.zeros(()))


def _values(space: ParameterSpace, theta: Any) -> dict[str, Any]:
    return jax.vmap(space.values_of_one, in_axes=-1, out_axes=-1)(theta)


def _log_prior(space: ParameterSpace, theta: Any) -> Any:
    return jax.vmap(space.log_prior_of_one, in_axes=-1)(theta)


_KINDS: list[TreeSpec] = []
"""Forms of all spaces so far: comparing two of them is slow, so programs know them by their index here."""


@partial(jax.jit, static_argnums=(0, 1, 2))
def _compiled(function: Callable[..., Any], static: tuple[Any, ...], kind: int, numbers: Any, *arguments: Any) -> Any:
    return function(*static, _KINDS[kind].filled(numbers), *arguments)


def _of_numpyro(part: Any) -> bool:
    """Whether a prior, and every prior and transform in it, can be taken apart and put together again: a class of the
    user's own may keep numbers where JAX does not see them, and a transform with numbers decides by them what it maps
    to (times -1 turns what is positive into what is negative), which it cannot inside a program."""

    def is_part(node: Any) -> bool:
        return node is not part and isinstance(node, dist.Distribution | dist.transforms.Transform)

    nodes = jax.tree.leaves(part, is_leaf=is_part)
    if not type(part).__module__.startswith("numpyro.") or (isinstance(part, dist.transforms.Transform) and nodes):
        return False
    return all(_of_numpyro(node) for node in nodes if is_part(node))


def _check_prior(name: QuantityName, prior: Any) -> None:
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
