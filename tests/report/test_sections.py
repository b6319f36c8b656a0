"""What each section lays out, before any template."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import probsysid as ps
from probsysid.posterior.diagnostics.solver_check import SolverCheck
from probsysid.report import sections
from probsysid.report.html.rendering import InteractiveFigures
from probsysid.report.views import Content, DataView, ModelView
from tests.study.small import fitted


@pytest.fixture(scope="module")
def posterior() -> ps.Posterior:
    return ps.Posterior.load(fitted() / "lag-results" / "posterior.nc")


def test_integration_shows_the_verdict_and_the_shares(posterior: ps.Posterior) -> None:
    shares = {"x": {"noise": 0.9, "integration": 0.1}, "y": {"noise": 0.5}}
    check = SolverCheck(substeps=2, finer=4, shape=0.1, shift={"x": 0.1, "y": 0.05}, spread={"x": 1.0, "y": 1.0})
    found = sections.integration(ModelView("lag", replace(posterior, check=check, variance_shares=shares)))
    assert found is not None and found.shares is not None
    assert found.verdict == check.verdict
    assert found.shares.head == ["", "noise", "integration"]
    assert found.shares.rows == [["x", "0.9", "0.1"], ["y", "0.5", ""]]
    assert sections.integration(ModelView("lag", replace(posterior, check=None, variance_shares=None))) is None


def test_the_first_screen_has_three_verdicts(posterior: ps.Posterior) -> None:
    """A sentence that a traffic light says is not repeated as a warning."""
    doubtful = replace(posterior, doubts=("the residuals are not white.", "the noise is given too low."))
    view = ModelView("lag", doubtful, problems=["the noise is given too low", "a free run failed"])
    found = sections.summary(Content("lag", [], [view]))
    assert [light.subject for light in found.lights] == ["integration", "sampling", "model"]
    assert found.lights[2].light == "doubtful"
    assert found.lights[2].sentence == "the residuals are not white. 1 more below."
    assert list(found.problems) == ["the noise is given too low", "a free run failed"]
    single = replace(view, posterior=replace(posterior, doubts=("a doubt.",)), problems=["a doubt"])
    assert not sections.summary(Content("lag", [], [single])).problems


def test_quantities_come_in_the_models_order_and_given_ones_last(posterior: ps.Posterior) -> None:
    model = ModelView("lag", posterior, parameters=["b", "a"], descriptions={"b": "gain"}, fixed={"g": (9.81, "m/s^2")})
    table = sections.parameter_table(model)
    assert [row.name for row in table.rows] == ["b", "a", "initial.h", "g"]
    assert [row.description for row in table.rows] == ["gain", "", "initial value of h", ""]
    given = table.rows[-1]
    assert (given.mean, given.sd, given.unit, given.given) == ("9.81", "given", "m/s^2", True)
    assert table.described


def test_the_summary_is_of_the_best_model(posterior: ps.Posterior) -> None:
    better = replace(posterior, evidence_by_population=posterior.evidence_by_population + 3.0)
    found = sections.summary(
        Content("", [], [ModelView("lag", posterior), ModelView("other", better, problems=["no"])])
    )
    assert (found.models, found.best, found.problems) == (2, "other", ["other: no"])
    assert found.tiles[0][0] == f"{posterior.log_evidence + 3:.1f}"


def test_formulas_are_shown_once(posterior: ps.Posterior) -> None:
    """With the table: in the summary, or in the section on parameters where there are several models."""
    a = np.exp(np.random.default_rng(0).standard_normal(len(posterior.weights)))
    tied = ModelView("lag", replace(posterior, values={**posterior.values, "a": a, "b": 2.0 / a}))
    (sentence,) = sections.summary(Content("", [], [tied])).identifiability
    assert sentence.startswith("only a*b is known")
    assert sections.parameters(tied, listed=True).identifiability == (sentence,)
    assert sections.parameters(tied, listed=False).identifiability == ()


def test_small_probabilities_are_not_rounded_to_zero() -> None:
    frame = pd.DataFrame(
        {
            "log_evidence": [2.0, -7.0, -8.0],
            "error": [0.1, np.nan, np.nan],
            "below_best": [0.0, 9.0, 10.0],
            "probability": [0.9999, 0.0001, np.nan],
            "sampling": ["trusted", "trusted", "Laplace approximation"],
        },
        index=["lag", "other", "third"],
    )
    rows = sections.comparison(frame).rows
    assert rows[0] == ["lag", "2.00 (± 0.10)", "0.00", "1.000", "trusted"]
    assert rows[1] == ["other", "-7.00", "9.00", "under 0.001", "trusted"]
    assert rows[2] == ["third", "-8.00", "10.00", "not known", "Laplace approximation"]


def test_a_record_in_words() -> None:
    values = np.array([0.0, np.nan, 2.0, 3.0])
    record = ps.Record({"u": np.arange(4.0)}, {"y": values}, time=[0.0, 1.0, 2.5, 3.0], units={"y": "m"})
    figures = InteractiveFigures()
    found = sections.record_summary(DataView("r", record, slice(0, 2), slice(2, 4), ["cut"], "r.csv"), figures)
    assert [tuple(row) for row in found.facts.rows] == [
        ("file", "r.csv"),
        ("samples", 4),
        ("step", "not uniform"),
        ("duration", "3 s"),
        ("training", "samples 0 to 1 (0 to 1 s)"),
        ("test", "samples 2 to 3 (2.5 to 3 s)"),
        ("input", f"u, {record.intersample['u']} between samples"),
        ("output", "y [m], 1 missing"),
        ("remark", "cut"),
    ]
    assert list(figures.models) == [found.figure]


def test_a_posterior_without_spread_has_no_drawing() -> None:
    def draw() -> None:
        raise np.linalg.LinAlgError

    assert sections.drawing(draw, "marginals").png is None
