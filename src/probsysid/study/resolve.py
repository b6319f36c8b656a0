"""Resolve a study: read and cut its data, build its models, and check every name against every other.

All mistakes are found here, before anything is compiled or written.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from probsysid._internal.errors import InputError
from probsysid.data.record import Record
from probsysid.odefilter.solver import Solver
from probsysid.smc.options import Sampler
from probsysid.study.candidates import CandidateModel, make_candidate, parse_models
from probsysid.study.menus import menu_of
from probsysid.study.mistakes import Mistakes
from probsysid.study.name_checks import check_use, model_key
from probsysid.study.records import StudyRecord, read_records
from probsysid.study.schema import ModelSection, SamplerSection, SolverSection, Study

Options = TypeVar("Options", Solver, Sampler)


@dataclass(frozen=True, eq=False)
class ResolvedStudy:
    """A study with its data read and its models built: everything that a run needs."""

    path: Path
    study: Study
    measured: tuple[StudyRecord, ...]
    candidates: tuple[CandidateModel, ...]
    sampler: Sampler

    @property
    def training(self) -> tuple[Record, ...]:
        """The training ranges, as records."""
        return tuple(m.record[m.train] for m in self.measured if m.train is not None)

    @property
    def trained(self) -> tuple[StudyRecord, ...]:
        """The records that have a training range."""
        return tuple(m for m in self.measured if m.train is not None)

    @property
    def title(self) -> str:
        return self.study.title or self.path.stem


def resolve_study(study: Study, path: Path) -> ResolvedStudy:
    """Read the data and build the models; raises `StudyError` with every mistake found."""
    mistakes = Mistakes(path)
    solver = options_of(mistakes, "solver", study.solver, Solver)
    sampler = options_of(mistakes, "sampler", study.sampler, Sampler)
    records = read_records(mistakes, study, path.parent)
    models = parse_models(mistakes, study)
    check_use(mistakes, study, [parsed.equations for parsed in models])
    mistakes.stop()
    trained = [r for r in records if r.train is not None]
    training = [r.record[r.train] for r in trained if r.train is not None]
    candidates = []
    for parsed in models:
        try:
            own = own_solver(mistakes, study, parsed.section, solver)
            candidate = make_candidate(study, parsed, own, trained, training)
            menu = menu_of(study, parsed.section, candidate, training, sampler)
            candidates.append(replace(candidate, menu=menu))
        except InputError as error:
            mistakes.add(model_key(study, parsed.section), error)
    mistakes.stop()
    return ResolvedStudy(path, study, tuple(records), tuple(candidates), sampler)


def own_solver(mistakes: Mistakes, study: Study, section: ModelSection, common: Solver) -> Solver:
    """The solver of a model: what its own section says, and for the rest that of the study."""
    if section.solver is None:
        return common
    own = {name: getattr(section.solver, name) for name in section.solver.model_fields_set}
    return options_of(mistakes, f"{model_key(study, section)}.solver", study.solver.model_copy(update=own), Solver)


def options_of(mistakes: Mistakes, key: str, section: SolverSection | SamplerSection, kind: type[Options]) -> Options:
    """The `Solver` or `Sampler` of a section; their own checks name their fields."""
    given = {name: value for name, value in section if name not in ("preset", "method", "refine") and value is not None}
    try:
        return kind.paper(**given) if section.preset == "paper" else kind(**given)
    except InputError as error:
        mistakes.add(key, str(error).removeprefix(f"{key}: "))
        return kind()
