"""Checks of the kinds of arguments, before any of them is used: a sentence with the name and what was given."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from probsysid._internal.errors import InputError, did_you_mean
from probsysid._internal.jax_setup import check_not_traced
from probsysid._internal.validation import check_kind, check_mapping, check_seed, shown
from probsysid.data.record import Record
from probsysid.model.model import Model
from probsysid.odefilter.solver import Solver
from probsysid.parallel.executor import Executor
from probsysid.particlefilter.settings import ParticleFilter
from probsysid.smc.options import Sampler

Method = Literal["sample", "map"]


def check_arguments(
    model: Any,
    priors: Any,
    noise: Any,
    process_noise: Any,
    varies: Any,
    solver: Any,
    sampler: Any,
    executor: Any,
    seed: Any,
    method: Any = "sample",
) -> None:
    """Raise unless the arguments that `identify` and `Identifier` share are of the right kinds."""
    check_not_traced()
    check_kind("model", model, Model, "make one with probsysid.Model(...)")
    check_mapping("priors", priors, "{'m': dist.LogNormal(0, 1)}")
    for name, value in (("noise", noise), ("process_noise", process_noise)):
        if value is not None:
            check_mapping(name, value, "{'position': 0.1}" if name == "noise" else "{'x': 0.1}")
    if varies is not None:
        check_mapping("varies", varies, "{'k': dist.HalfNormal(0.05)}")
    if not isinstance(solver, ParticleFilter):
        check_kind("solver", solver, Solver, "make one with probsysid.Solver(...)")
    check_kind("sampler", sampler, Sampler, "make one with probsysid.Sampler(...)")
    if executor is not None:
        check_kind("executor", executor, Executor, "make one with probsysid.Threads(...)")
    check_seed(seed)
    if method not in get_args(Method):
        hint = did_you_mean(str(method), get_args(Method))
        raise InputError(f"method is {shown(method)}; it must be 'sample' or 'map'.{hint}")


def checked_records(record: Any) -> tuple[Record, ...]:
    """One record or several as a tuple."""
    if isinstance(record, Record):
        return (record,)
    if not isinstance(record, Sequence) or isinstance(record, str | bytes):
        raise InputError(f"record is {shown(record)}; it must be a probsysid.Record, or a list of them.")
    if not record:
        raise InputError("there is no record to identify from.")
    for r, item in enumerate(record):
        if not isinstance(item, Record):
            raise InputError(f"record {r} is a {type(item).__name__}; make it a probsysid.Record.")
    return tuple(record)


def checked_initials(initial: Any, records: int) -> list[Mapping[str, Any]]:
    """The initial values of each record: one mapping for all, or a list with one for each."""
    if initial is None or isinstance(initial, Mapping):
        return [initial or {}] * records
    if not isinstance(initial, Sequence) or isinstance(initial, str | bytes):
        raise InputError(f"initial is {shown(initial)}; it must map names to values, as in {{'x': 0.0, 'dx': 0.0}}.")
    for item in initial:
        check_mapping("an entry of initial", item, "{'x': 0.0, 'dx': 0.0}")
    if len(initial) != records:
        raise InputError(f"initial has {len(initial)} entries for {records} records; give one for each.")
    return list(initial)
