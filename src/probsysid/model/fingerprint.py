"""Priors and models in words, for tables, reports and fingerprints."""

import hashlib
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from probsysid.model.model import Model


def describe_prior(prior: Any) -> str:
    """`LogNormal(loc=-12, scale=0.3)`; truncation and other wrappers around their base."""
    base = getattr(prior, "base_dist", None)
    own = {name: getattr(prior, name, None) for name in prior.arg_constraints}
    shown = {name: value for name, value in own.items() if value is not None and not _derived(prior, name)}
    arguments = [f"{name}={_number(value)}" for name, value in shown.items()]
    if (base is not None and not shown) or (
        base is not None and type(prior).__name__.endswith("TruncatedDistribution")
    ):
        arguments.insert(0, describe_prior(base))
    return f"{type(prior).__name__}({', '.join(arguments)})"


def _derived(prior: Any, name: str) -> bool:
    """One of several ways to give the same thing, such as the precision next to the covariance."""
    return name in ("precision_matrix", "scale_tril") and "covariance_matrix" in prior.arg_constraints


def _number(value: Any) -> str:
    array = np.asarray(value)
    return (
        f"{array:.6g}" if array.shape == () else np.array2string(array, precision=6, separator=", ").replace("\n", "")
    )


def exact_numbers(given: Sequence[Any]) -> list[np.ndarray]:
    """Every number in priors and fixed values, to the last digit: what `describe_prior` rounds.

    Sorted within each prior: in which order numpyro lists them differs from process to process.
    """
    listed = [[np.asarray(leaf, dtype=float) for leaf in jax.tree.leaves(prior)] for prior in given]
    return [number for numbers in listed for number in sorted(numbers, key=lambda array: array.tobytes())]


def model_program(model: Model) -> str:
    """The model's equations as JAX sees them: two models with the same text behave the same.

    Arrays that the equations close over, such as tables, count by a digest of their values.
    """
    inputs = [jax.ShapeDtypeStruct((), float) for _ in model.input_names]
    parameters = {p: jax.ShapeDtypeStruct(model.shapes.get(p, ()), float) for p in model.parameter_names}
    physical = [jax.ShapeDtypeStruct((), float) for _ in model.physical_names]
    highest = [jax.ShapeDtypeStruct((), float) for _ in model.highest_names]
    dynamics = jax.make_jaxpr(model.highest_derivatives)(physical, inputs, parameters)
    outputs = jax.make_jaxpr(model.measured)(physical, highest, inputs, parameters)
    constants = fingerprint(dynamics.consts, outputs.consts)
    return f"{dict(model.coordinates)}\n{dynamics}\n{outputs}\n{constants}"


def fingerprint(*parts: Any) -> str:
    """A short text that changes when any part does.  Arrays count by their bytes."""
    digest = hashlib.sha256()
    for part in parts:
        for leaf in jax.tree.leaves(part) if not isinstance(part, str) else [part]:
            digest.update(leaf.encode() if isinstance(leaf, str) else np.ascontiguousarray(leaf).tobytes())
            digest.update(b"\0")
    return digest.hexdigest()
