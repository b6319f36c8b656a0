"""The report of a study: its records, models and results as the views of a page."""

from collections.abc import Sequence
from pathlib import Path

from probsysid.model.mathml import equation_of_motion, intermediate, output_equation
from probsysid.model.model_equations import ModelEquations
from probsysid.report.page import write_page
from probsysid.report.views import Content, DataView, ModelView, RunView
from probsysid.study.resolve import ResolvedStudy
from probsysid.study.results import CandidateResult, comparison, versions


def write_study_page(
    path: Path,
    resolved: ResolvedStudy,
    results: Sequence[CandidateResult],
    study: str,
) -> None:
    """Write the report of a study; `study` is its file as used."""
    content = Content(
        title=resolved.title,
        data=[DataView(m.name, m.record, m.train, m.test, m.notes, str(m.section.file)) for m in resolved.measured],
        models=[model_view(result) for result in results],
        comparison=comparison(results) if len(results) > 1 else None,
        study=study,
        versions=versions(),
    )
    write_page(path, content)


def typeset(formulas: ModelEquations) -> list[str]:
    """The equations of motion, of the outputs, and of the intermediate expressions in them, as MathML."""
    coordinates = formulas.coordinates
    motion = [equation_of_motion(c, coordinates[c], e, coordinates) for c, e in formulas.equations.items()]
    outputs = [output_equation(name, e, coordinates) for name, e in formulas.outputs.items()]
    return [*motion, *outputs, *(intermediate(name, formulas.let[name], coordinates) for name in formulas.let_used)]


def model_view(result: CandidateResult) -> ModelView:
    """One model with its equations typeset, and its free runs that stayed finite."""
    candidate = result.candidate
    return ModelView(
        name=candidate.name,
        posterior=result.posterior,
        equations=typeset(candidate.formulas),
        parameters=list(candidate.parameters),
        descriptions=candidate.descriptions,
        fixed={n: (s.fixed, s.unit) for n, s in candidate.parameters.items() if s.fixed is not None},
        states=result.states,
        inputs=result.inputs,
        runs=[
            RunView(run.measured.name, run.simulation, run.train, run.test, run.scores(), run.start)
            for run in result.runs
            if run.finite
        ],
        problems=result.problems,
    )
