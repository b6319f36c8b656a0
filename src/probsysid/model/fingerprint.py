"""Priors and models as text and as digests, for tables, reports and checkpoints."""

import hashlib
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np
import numpyro.distributions as dist
from numpy.typing import ArrayLike

from probsysid.model.model import Model


def describe_prior(prior: dist.Distribution) -> str:
    """`LogNormal(loc=-12, scale=0.3)`; a truncated or transformed distribution shows its base distribution."""
    base = getattr(prior, "base_dist", None)
    own = {name: getattr(prior, name, None) for name in prior.arg_constraints}
    shown = {name: value for name, value in own.items() if value is not None and not _derived(prior, name)}
    arguments = [f"{name}={_rounded(value)}" for name, value in shown.items()]
    if (base is not None and not shown) or (
        base is not None and type(prior).__name__.endswith("TruncatedDistribution")
    ):
        arguments.insert(0, describe_prior(base))
    if type(prior) is dist.TransformedDistribution:
        arguments.append(f"support={_support(prior.support)}")
    return f"{type(prior).__name__}({', '.join(arguments)})"


def _support(support: Any) -> str:
    """`Positive(lower_bound=0.0)`; of several numbers one after the other, as those of `prior_from`."""
    support = getattr(support, "base_constraint", support)
    parts = getattr(support, "cseq", None)
    return str(support) if parts is None else f"[{', '.join(map(str, parts))}]"


def _derived(prior: dist.Distribution, name: str) -> bool:
    """Whether a parameter restates another one, as the precision restates the covariance."""
    return name in ("precision_matrix", "scale_tril") and "covariance_matrix" in prior.arg_constraints


def _rounded(value: ArrayLike) -> str:
    array = np.asarray(value)
    return (
        f"{array:.6g}" if array.shape == () else np.array2string(array, precision=6, separator=", ").replace("\n", "")
    )


def exact_numbers(given: Iterable[dist.Distribution | ArrayLike]) -> list[np.ndarray]:
    """All numbers of priors and fixed values at full precision, which `describe_prior` rounds.

    Sorted within each prior, because the order in which numpyro lists them differs between processes.
    """
    listed = [[np.asarray(leaf, dtype=float) for leaf in jax.tree.leaves(prior)] for prior in given]
    return [number for numbers in listed for number in sorted(numbers, key=lambda array: array.tobytes())]


def model_program(model: Model) -> str:
    """The model's equations as a JAX program: models with the same text compute the same.

    Arrays that the equations close over, such as lookup tables, are represented by a digest of their values.
    """
    inputs = [jax.ShapeDtypeStruct((), float) for _ in model.input_names]
    parameters = {p: jax.ShapeDtypeStruct(model.shapes.get(p, ()), float) for p in model.parameter_names}
    physical = [jax.ShapeDtypeStruct((), float) for _ in model.physical_names]
    highest = [jax.ShapeDtypeStruct((), float) for _ in model.highest_names]
    dynamics = jax.make_jaxpr(model.highest_derivatives)(physical, inputs, parameters)
    outputs = jax.make_jaxpr(model.measured)(physical, highest, inputs, parameters)
    constants = fingerprint(dynamics.consts, outputs.consts)
    if model.needs_particle_filter:
        constants += _stochastic_program(model, physical, highest, inputs, parameters)
    return f"{dict(model.coordinates)}\n{dynamics}\n{outputs}\n{constants}"


def _stochastic_program(model: Model, *arguments: Any) -> str:
    """The densities of outputs that are distributions, and the diffusion, as a program."""

    def program(physical: Any, highest: Any, inputs: Any, parameters: Any, value: Any) -> Any:
        densities = [law.log_prob(value) for law in model.laws_at(physical, highest, inputs, parameters).values()]
        return densities, model.diffusion_columns(physical, inputs, parameters)

    found = jax.make_jaxpr(program)(*arguments, jax.ShapeDtypeStruct((), float))
    return f"\n{model.wiener_names}\n{found}\n{fingerprint(found.consts)}"


def fingerprint(*parts: Any) -> str:
    """SHA-256 digest of texts and trees of arrays; arrays enter by their bytes."""
    digest = hashlib.sha256()
    for part in parts:
        for leaf in jax.tree.leaves(part) if not isinstance(part, str) else [part]:
            digest.update(leaf.encode() if isinstance(leaf, str) else np.ascontiguousarray(leaf).tobytes())
            digest.update(b"\0")
    return digest.hexdigest()
