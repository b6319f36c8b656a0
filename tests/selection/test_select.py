"""The search against exact evidences of all subsets."""

import math
from pathlib import Path

import numpy as np
import pytest

import probsysid as ps
from probsysid.selection.climb import MARGIN
from probsysid.selection.evaluated import Evaluated
from probsysid.selection.menu import Menu
from probsysid.selection.screening import Screening
from probsysid.selection.search import Search
from probsysid.selection.select import selection_of
from tests.selection import linear

pytestmark = pytest.mark.slow  # the search runs seven models, each of which compiles


@pytest.fixture(scope="module")
def record() -> ps.Record:
    return linear.measure()


@pytest.fixture(scope="module")
def exact(record: ps.Record) -> dict[frozenset[str], float]:
    return {names: linear.exact_evidence(record, names) for names in linear.subsets()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kept")


@pytest.fixture(scope="module")
def selection(record: ps.Record, folder: Path) -> ps.Selection:
    return ps.select(linear.model, linear.terms, record, folder=folder, **linear.options())


def test_screening_has_the_exact_evidence_of_every_subset(
    record: ps.Record, exact: dict[frozenset[str], float]
) -> None:
    given = linear.options(seed=0, method="sample")
    shared = {name: given.pop(name) for name in ("priors", "noise", "initial")}
    menu = Menu.make(linear.model, linear.terms, record, **shared, options=given)
    screening = Screening(menu)
    begun = screening.begin(frozenset())
    screening.extend(begun, linear.subsets())
    # the posterior is Gaussian, so that Laplace's approximation is exact; searches end at a gain of 1e-3 at most
    best = max(exact.values())
    near = [names for names, value in exact.items() if value > best - MARGIN]
    assert {"b", "d"} in near and 1 < len(near) < len(exact)
    for names in near:
        assert screening.found[names].log_evidence == pytest.approx(exact[names], abs=1e-3)
    for names in set(exact) - set(near):  # searches that fell behind are given up on their way
        assert screening.found[names].log_evidence < exact[names] + 1e-3


def test_a_run_that_has_missed_the_posterior_is_named(record: ps.Record) -> None:
    given = linear.options(seed=0, method="sample")
    shared = {name: given.pop(name) for name in ("priors", "noise", "initial")}
    menu = Menu.make(linear.model, linear.terms, record, **shared, options=given)
    search = Search(linear.terms, ps.SearchOptions(), Screening(menu), (frozenset(),))
    for number, (names, short) in enumerate(((frozenset("b"), 3.0), (frozenset("d"), 12.0)), 1):
        cheap = search.screening.begin(names).log_evidence
        search.runs[names] = Evaluated(names, cheap - short, 0.1, number=number)
    (note,) = selection_of(search, menu, "").notes
    assert note.startswith("model 2 has a log evidence of") and "missed the posterior" in note


def test_screening_takes_records_of_different_lengths(record: ps.Record) -> None:
    records = [linear.measure(1)[:25], record]
    given = linear.options(seed=0, method="sample")
    shared = {name: given.pop(name) for name in ("priors", "noise", "initial")}
    screening = Screening(Menu.make(linear.model, linear.terms, records, **shared, options=given))
    names = frozenset("bd")
    assert screening.begin(names).log_evidence == pytest.approx(linear.exact_evidence(records, names), abs=1e-3)


def test_the_best_subset_is_found_with_its_probability(
    selection: ps.Selection, exact: dict[frozenset[str], float]
) -> None:
    def log_prior(names: frozenset[str]) -> float:
        return -math.log(5) - math.log(math.comb(4, len(names)))

    joint = np.array([value + log_prior(names) for names, value in exact.items()])
    probabilities = dict(zip(exact, np.exp(joint - np.logaddexp.reduce(joint)), strict=True))
    assert selection.best.names == max(probabilities, key=probabilities.__getitem__) == {"b", "d"}
    for model, probability, error in zip(selection.models, selection.probabilities, selection.errors, strict=True):
        assert abs(model.log_evidence - exact[model.names]) < 4 * model.error
        assert abs(probability - probabilities[model.names]) < 4 * error + 1e-6
    for name in linear.NAMES:
        true = sum(p for names, p in probabilities.items() if name in names)
        assert abs(selection.inclusion[name] - true) < 4 * selection.inclusion_errors[name] + 1e-6


def test_a_search_resumes_without_running_a_model_again(
    selection: ps.Selection, record: ps.Record, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(**_: object) -> None:
        raise AssertionError("a model was run again")

    monkeypatch.setattr("probsysid.selection.evaluated.identify", never)
    again = ps.select(linear.model, linear.terms, record, folder=folder, **linear.options())
    assert [m.names for m in again.models] == [m.names for m in selection.models]
    assert [m.log_evidence for m in again.models] == [m.log_evidence for m in selection.models]
    assert again.posterior.mean("a_b") == selection.posterior.mean("a_b")
    with pytest.raises(AssertionError, match="run again"):  # other data are another search
        ps.select(linear.model, linear.terms, linear.measure(1), folder=folder, **linear.options())


def test_a_budget_ends_the_search_with_a_note(record: ps.Record, folder: Path) -> None:
    given = linear.options(search=ps.SearchOptions(budget=1))
    found = ps.select(linear.model, linear.terms, record, folder=folder, **given)
    assert len(found.models) == 1 and "budget of 1 runs is spent" in found.notes[0]


def test_the_average_of_models_lies_between_them(selection: ps.Selection, record: ps.Record) -> None:
    averaged = selection.simulate(record, steps=1)
    means = [model.posterior.simulate(record, steps=1).mean() for model in selection.models]
    shares = selection.probabilities / selection.probabilities.sum()
    # models that together have less than a hundredth are left out
    assert np.allclose(averaged.mean(), np.einsum("m,mt->t", shares, np.stack(means)), atol=0.01 * np.ptp(means))
    assert averaged.weights.sum() == pytest.approx(1.0)


def test_the_tree_and_the_summary_name_every_run(selection: ps.Selection, tmp_path: Path) -> None:
    figure = selection.tree(tmp_path / "tree.png")
    assert (tmp_path / "tree.png").stat().st_size > 0
    drawn = {text.get_text() for text in figure.axes[0].texts}
    assert drawn == {str(model.number) for model in selection.models}
    summary = selection.summary()
    assert [row["model"] for row in summary["models"]] == [model.number for model in selection.models]
    assert summary["best"] == "b + d" and set(summary["inclusion"]) == set(linear.NAMES)
