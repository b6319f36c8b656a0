"""Priors as data: the class of a distribution, transform or constraint of numpyro, and its fields."""

from typing import Any

import numpyro.distributions as dist
from numpyro.distributions import constraints, transforms

from probsysid._internal.plain_data import Codec, UnstorableError

PACKAGE = "numpyro.distributions."
"""Where the classes have to be defined: those of users are code."""

BASES = (dist.Distribution, transforms.Transform, constraints.Constraint)


def encode_part(codec: Codec, value: Any) -> Any:
    """Data for a distribution, transform or constraint of numpyro; None for anything else."""
    if not isinstance(value, BASES):
        return None
    kind = type(value)
    if not kind.__module__.startswith(PACKAGE):
        raise UnstorableError(f"the class {kind.__name__} is not one of numpyro")
    children, auxiliary = value.tree_flatten()
    if isinstance(value, dist.Distribution):  # by name: numpyro lists fields in another order in every process
        fields = dict(zip(kind.gather_pytree_data_fields(), children, strict=True))
        settings = dict(zip(kind.gather_pytree_aux_fields(), auxiliary, strict=True))
    else:
        names, settings = auxiliary
        fields = dict(zip(names, children, strict=True))
    return {
        "module": kind.__module__.removeprefix(PACKAGE),
        "class": kind.__name__,
        "fields": {name: codec.encode(item) for name, item in fields.items()},
        "settings": {name: codec.encode(item) for name, item in settings.items()},
    }


def decode_part(codec: Codec, data: Any) -> Any:
    """The distribution, transform or constraint."""
    match data:
        case {"module": str(module), "class": str(name), "fields": dict(fields), "settings": dict(settings)}:
            kind = _CLASSES.get((module, name))
        case _:
            kind = None
    if kind is None or any(key.startswith("__") for key in (*fields, *settings)):
        raise UnstorableError(f"{str(data)[:40]} is not a distribution of numpyro")
    given = {key: codec.decode(item) for key, item in fields.items()}
    others = {key: codec.decode(item) for key, item in settings.items()}
    if not issubclass(kind, dist.Distribution):
        return kind.tree_unflatten((tuple(given), others), tuple(given.values()))
    data_fields, auxiliary = kind.gather_pytree_data_fields(), kind.gather_pytree_aux_fields()
    if set(given) != set(data_fields) or set(others) != set(auxiliary):
        raise UnstorableError(f"{name} has other fields in this version of numpyro")
    return kind.tree_unflatten(tuple(others[key] for key in auxiliary), tuple(given[key] for key in data_fields))


def _classes() -> dict[tuple[str, str], Any]:
    """Every class of numpyro's distributions, transforms and constraints, by module and name."""
    found: dict[tuple[str, str], Any] = {}
    waiting: list[type] = list(BASES)
    while waiting:
        kind = waiting.pop()
        if kind.__module__.startswith(PACKAGE):
            found[kind.__module__.removeprefix(PACKAGE), kind.__name__] = kind
        waiting.extend(kind.__subclasses__())
    return found


_CLASSES = _classes()

PRIORS = Codec((), encode_part, decode_part)
"""For mappings of names to priors and numbers."""
