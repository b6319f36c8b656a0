"""Case studies whose terms are chosen: the search finds the terms and the version of the data that made them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import probsysid as ps
from probsysid import dist
from probsysid.benchmarks import silverbox_terms
from probsysid.benchmarks.candidates import Candidates, choose_terms
from probsysid.benchmarks.case import CaseStudy
from probsysid.selection.extension import extended
from tests import duffing
from tests.benchmarks.runs import small_study

BASE = ps.Model(
    {"x": 2}, lambda s, u, p: {"x": (u.force - p.c * s.dx - p.k * s.x) / p.m}, lambda s, u, p: {"position": s.x}
)
MENU = ps.Terms(
    ps.Term("cubic stiffness", {"x": "-k3*x**3/m"}, priors={"k3": duffing.PRIORS["k3"]}),
    ps.Term("offset", {"x": "f0/m"}, priors={"f0": dist.Normal(0, 0.1)}),
)


@pytest.mark.slow
def test_terms_and_version_are_found_from_wrong_ones(tmp_path: Path) -> None:
    """Both channels of the record went through a filter; the search begins where nothing is undone."""
    study = small_study()
    record = study.record.allpass(lambda f: -3.0 * f**3)
    versions = {f"phase {p}": record.allpass(lambda f, p=p: p * f**3) for p in (0.0, 1.5, 3.0, 4.5)}
    asked: list[tuple[frozenset[str], str]] = []

    def chosen(names: frozenset[str], version: str) -> CaseStudy:
        asked.append((names, version))
        terms = MENU.chosen(names)
        return replace(study, model=extended(BASE, terms, ("force",)), variant="selected")

    priors = {name: duffing.PRIORS[name] for name in "mck"}
    options = ps.SearchOptions(budget=6, beam=1)
    candidates = Candidates(
        BASE, priors, study.initial, MENU, versions, "phase 0.0", chosen, options, method="map", particles=64
    )
    console = Console(file=(tmp_path / "log").open("w"), width=200)
    found = choose_terms(candidates, study.methods["default"], 0, tmp_path / "kept", console, None)
    assert asked == [(frozenset({"cubic stiffness"}), "phase 3.0")]
    assert found.version == "phase 3.0" and found.study.candidates is None
    assert max(found.evidences, key=found.evidences.__getitem__) == "phase 3.0"
    console.file.close()
    log = (tmp_path / "log").read_text()
    assert "searching 2 terms (phase 0.0)" in log and "searching 2 terms (phase 3.0)" in log
    kept = sorted((tmp_path / "kept").glob("*.json"))
    choose_terms(candidates, study.methods["default"], 0, tmp_path / "kept", Console(quiet=True), None)
    assert sorted((tmp_path / "kept").glob("*.json")) == kept  # resumed: nothing was run again


def test_every_term_of_the_menu_makes_a_model() -> None:
    """With what it needs; its numbers are finite."""
    terms = silverbox_terms.TERMS
    for term in terms:
        model = extended(silverbox_terms.BASE, terms.chosen(terms.with_needs((term.name,))), ("force",))
        assert set(term.parameter_names) <= set(model.parameter_names)
        values = {name: 0.3 for name in model.parameter_names}
        state = [0.4] * len(model.physical_names)
        assert np.all(np.isfinite(model.highest_derivatives(state, [0.2], values)))
    assert len(terms) >= 20
