"""From the arguments of `identify` to the problem."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from probsysid._internal.errors import InputError
from probsysid._internal.validation import check_mapping
from probsysid.data.record import Record
from probsysid.inference.argument_checks import checked_initials
from probsysid.model.kernels import Kernel
from probsysid.model.latent_processes import LatentProcesses
from probsysid.model.laws import check_support
from probsysid.model.model import Model
from probsysid.model.noise import AnyNoise, check_records, with_levels
from probsysid.model.priors import Prior, Priors
from probsysid.model.problem import Problem
from probsysid.model.process_noise_prior import with_default_priors
from probsysid.model.varying import Variation
from probsysid.odefilter.linearise import EKF0
from probsysid.odefilter.solver import Solver


class LatentArguments(NamedTuple):
    """Kernels of unknown inputs and of drifts."""

    unknown: Mapping[str, Kernel]
    drifts: Mapping[str, Kernel]

    def processes(self, model: Model, priors: Priors, measured: Sequence[str], solver: Solver) -> LatentProcesses:
        """Checked; `measured` names everything that is measured."""
        check_mapping("unknown", self.unknown, "{'force': Matern(1.5, scale=..., length=...)}")
        check_mapping("drifts", self.drifts, "{'k': RandomWalk(rate=...)}")
        found = LatentProcesses.make(
            model, priors, self.unknown, self.drifts, [n for n in self.unknown if n in measured]
        )
        name = next((process.name for process in found.processes), None)
        if name is not None and isinstance(solver.linearisation, EKF0):
            raise InputError(
                f"{name!r} is an unknown input or a drift, and the solver's linearisation is EKF0(), which does not "
                "see what it does to the state; use EKF1()."
            )
        if name is not None and not solver.joint:
            raise InputError(
                f"{name!r} is an unknown input or a drift, and the solver's conditioning is {solver.conditioning!r}, "
                "with which data never tell the state; use 'joint'."
            )
        return found


def with_measured_inputs(
    records: tuple[Record, ...], unknown: Mapping[str, Kernel] | None, noise: Mapping[str, AnyNoise] | None
) -> tuple[Record, ...]:
    """Records whose unknown inputs that have a noise are outputs too: they are measured, with that noise."""
    names = [name for name in unknown or {} if name in (noise or {})]

    def measured(record: Record) -> Record:
        new = [name for name in names if name in record.inputs and name not in record.outputs]
        values = record.input_at(record.time)
        found = {name: values[:, record.input_names.index(name)] for name in new}
        return record.replace(outputs={**record.outputs, **found}) if new else record

    return tuple(map(measured, records))


def problem_of(
    model: Model,
    records: tuple[Record, ...],
    priors: Priors,
    noise: Mapping[str, AnyNoise] | None,
    initial: Mapping[str, Prior] | Sequence[Mapping[str, Prior]] | None,
    process_noise: Mapping[str, Prior],
    varies: Mapping[str, Variation],
    arguments: LatentArguments,
    solver: Solver,
) -> Problem:
    """Checked, with default priors from the records where levels of noise are not given."""
    measured = {*(noise or {}), *(name for record in records for name in record.outputs)} - set(model.output_names)
    latent = arguments.processes(model, priors, sorted(measured), solver)
    joined = latent.joined(model)
    for record in records:
        joined.check_inputs(record.input_names)
        if not any(name in record.outputs for name in joined.output_names):
            known = ", ".join(record.outputs) or "none"
            raise InputError(
                f"the record has none of the model's outputs ({', '.join(model.output_names)}); it has: {known}."
            )
    levels = with_levels(noise or {}, [name for name in joined.output_names if name not in joined.law_names], records)
    check_records(levels, records)
    for index, record in enumerate(records):
        check_support(joined, record.outputs, record.time, f" of record {index}" if len(records) > 1 else "")
    initials = checked_initials(initial, len(records))
    forces = with_default_priors(model, priors, records, process_noise)
    return Problem.make(model, priors, levels, initials, forces, varies, latent)
