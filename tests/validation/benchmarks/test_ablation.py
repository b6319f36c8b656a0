"""The ablation: which choices are exchanged, and the table of results."""

from types import SimpleNamespace
from typing import Any

import probsysid as ps
from probsysid.benchmarks.case import Method
from probsysid.odefilter.linearise import EKF0, EKF1
from validation.benchmarks.ablation import table, take, trials

OURS = Method(
    ps.Solver(substeps=4, linearisation="ekf1", diffusion="quasi-mle"), ps.Sampler(particles=64), noise={}, initial=None
)
PAPERS = Method(ps.Solver.paper(substeps=4), ps.Sampler.paper(particles=64), noise={"x": 1e-6}, initial={"x": 0.0})


def test_only_named_choices_are_taken() -> None:
    mixed = take(("noise", "linearisation"), PAPERS, OURS)
    assert (mixed.noise, mixed.solver.linearisation) == ({}, EKF1())
    assert (mixed.initial, mixed.solver.conditioning, mixed.sampler) == ({"x": 0.0}, "solver", PAPERS.sampler)
    assert PAPERS.solver.linearisation == EKF0()


def test_every_difference_is_tried_in_both_directions_and_equal_choices_are_not() -> None:
    study: Any = SimpleNamespace(case="silverbox", methods={"default": OURS, "paper": PAPERS})
    tried = [(name, choices) for name, choices, _ in trials(study)]
    different = {"linearisation", "conditioning", "smoothness", "noise", "start", "sampler"}
    for name in ("paper", "default"):
        assert {c[0] for n, c in tried if n == name and len(c) == 1} == different
        assert (name, ()) in tried
    assert ("paper", ("noise", "steps")) in tried


def test_the_table_has_one_figure_per_seed_and_names_failures() -> None:
    good = {"rmse": 0.25e-3, "log_evidence": 17258.7, "sweeps": 9.6}
    bad, lost = {**good, "log_evidence": -1.5e11}, {"failed": "all particles are lost"}
    row = {"case": "emps", "test": "closed_loop", "method": "paper", "taken": [], "runs": [good, bad]}
    rows = [row, {**row, "case": "silverbox"}, {**row, "taken": ["noise", "steps"], "runs": [good, lost]}]
    assert list(table(rows, "emps", 1e3, "mm")) == [
        "| method | closed_loop [mm] | log evidence | sweeps |",
        "|---|---|---|---|",
        "| paper | 0.25, 0.25 | 17259, -2e+11 | 10, 10 |",
        "| paper with the default's noise and steps | 0.25, failed | 17259 | 10 |",
    ]
