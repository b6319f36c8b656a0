"""What notebooks show for posteriors and what comes from them."""

import re

import numpy as np
import pytest

from probsysid.posterior.diagnostics.residuals import analyse
from probsysid.posterior.simulate import Simulation
from probsysid.posterior.states import States
from tests.posterior.tiny import RECORD, tiny_posterior


def test_a_posterior_shows_every_quantity_and_three_verdicts() -> None:
    page = tiny_posterior()._repr_html_()
    for name in ("a", "b"):
        assert f">{name}</td>" in page
    assert page.count("<svg") == 2 and page.count("&#9679;") == 3
    assert "the residuals are not white." in page and ".." not in page
    assert re.search(r"8 particles \(effective 8\), log evidence -3\.22", page)


def test_names_are_escaped() -> None:
    posterior = tiny_posterior()
    odd = {"<b>": posterior.values["a"]}
    page = type(posterior)(odd, *(getattr(posterior, f) for f in FIELDS))._repr_html_()
    assert "&lt;b&gt;" in page and "<b>" not in page


FIELDS = ("theta", "weights", "evidence_by_population", "history", "settings")


def test_a_simulation_shows_its_scores() -> None:
    outputs = {"level": np.asarray(RECORD.outputs["level"])[None] + np.array([[0.1], [-0.1]])}
    simulation = Simulation(RECORD, outputs, np.array([0.5, 0.5]), 4, 1e-9, start="the given initial state")
    page = simulation._repr_html_()
    assert "0.1</td>" in page and "%</td>" in page and "starts from the given initial state" in page
    assert repr(simulation) == "Simulation of level: 2 particles, 5 samples"
    assert len(simulation.plot().axes) == 2


def test_states_show_their_spread() -> None:
    time = np.arange(4.0)
    states = States(time, {"x": time}, {"x": np.full(4, 0.25)}, {"x": np.ones((3, 4))}, {})
    assert "0.25</td>" in states._repr_html_() and "3 sample paths" in states._repr_html_()
    assert repr(states) == "States x: 4 samples, 3 sample paths"


@pytest.mark.parametrize("white", [True, False])
def test_residuals_say_whether_they_are_white(white: bool) -> None:
    errors = np.random.default_rng(0).standard_normal(400)
    found = analyse(errors if white else np.convolve(errors, np.ones(5) / 5)[:400])
    assert found is not None
    assert ("not white" in found._repr_html_()) == (not white) == ("not white" in repr(found))
