"""A filter whose covariance has one block per coordinate: exact where coordinates do not touch each other, and as good
as the full one where steps are short."""

from typing import Any

import numpy as np
import pytest

import probsysid as ps
from probsysid import dist
from probsysid.model.problem import Problem
from probsysid.odefilter.arrays.step import as_array_filter
from probsysid.odefilter.linearise import BlockEKF1
from probsysid.odefilter.solver import LARGEST_UNROLLED
from probsysid.odefilter.unrolled.step import UnrolledFilter
from probsysid.parallel.threads import Threads
from probsysid.posterior.simulate import simulate
from probsysid.targets.batch_target import BatchTarget

SAMPLES, DT, NOISE = 60, 0.3, 0.02
DENSE = ps.Solver(linearisation="ekf1", conditioning="solver", substeps=1)
BLOCKS = ps.Solver(linearisation="block-ekf1", substeps=1)


def chain(masses: int, coupled: bool = True) -> ps.Model:
    """Masses in a row between two walls, on hardening springs; the first one is pushed, the last one measured.  Those
    that are not coupled have linear springs: where inputs jump, the Jacobian's rate of change is neglected."""

    def dynamics(s: Any, u: Any, p: Any) -> dict[str, Any]:
        x = [0.0, *(getattr(s, f"x{i}") for i in range(masses)), 0.0]
        v = [0.0, *(getattr(s, f"dx{i}") for i in range(masses)), 0.0]
        near = [0.5 * (x[i + 1] - x[i]) + p.c * (v[i + 1] - v[i]) for i in range(masses + 1)]
        force = [near[i + 1] - near[i] if coupled else 0.0 for i in range(masses)]
        cubic = 0.3 if coupled else 0.0
        own = [-p.k * x[i + 1] - cubic * x[i + 1] ** 3 - p.c * v[i + 1] for i in range(masses)]
        return {f"x{i}": own[i] + force[i] + (u.force if i == 0 or not coupled else 0.0) for i in range(masses)}

    return ps.Model(
        {f"x{i}": 2 for i in range(masses)}, dynamics, lambda s, u, p: {"last": getattr(s, f"x{masses - 1}")}
    )


def problem_and_record(masses: int, coupled: bool = True) -> tuple[Problem, ps.Record]:
    model, random = chain(masses, coupled), np.random.default_rng(3)
    time = DT * np.arange(SAMPLES)
    record = ps.Record({"force": np.sin(1.1 * time) + np.cos(0.7 * time)}, dt=DT, intersample="linear")
    start = 0.3 * random.standard_normal(2 * masses)
    values = {"k": np.array([1.0]), "c": np.array([0.1])}
    outputs, _, _ = simulate(model, values, start[:, None], record, 32)
    initial = dict(zip(model.physical_names, start, strict=True))
    record = record.replace(outputs={"last": outputs["last"][0] + NOISE * random.standard_normal(SAMPLES)})
    priors = {"k": dist.LogNormal(0, 0.2), "c": dist.LogNormal(np.log(0.1), 0.5)}
    return Problem.make(model, priors, {"last": NOISE}, [initial], {}), record


def log_likelihood(problem: Problem, record: ps.Record, solver: ps.Solver) -> np.ndarray:
    """Of eight particles around the truth."""
    target = BatchTarget(problem, solver, (record,), 8, Threads(1))
    spread = np.array([[0.02], [0.2]]) * np.random.default_rng(0).standard_normal((2, 8))
    theta = np.log([[1.0], [0.1]]) + spread
    _, likelihood, energy = target.sweep(theta, record.samples)
    return np.asarray(likelihood - energy)


def test_it_is_exact_where_coordinates_do_not_touch_each_other() -> None:
    problem, record = problem_and_record(2, coupled=False)
    full, blocks = (log_likelihood(problem, record, solver) for solver in (DENSE, BLOCKS))
    np.testing.assert_allclose(blocks, full, rtol=1e-9)


def test_both_forms_of_the_filter_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, record = problem_and_record(3)
    unrolled = BLOCKS.ode_filter(problem.model, record.jump_order)
    assert isinstance(unrolled, UnrolledFilter)
    written_out = log_likelihood(problem, record, BLOCKS)
    original = ps.Solver.ode_filter
    monkeypatch.setattr(ps.Solver, "ode_filter", lambda *a, **k: as_array_filter(original(*a, **k)))
    np.testing.assert_allclose(log_likelihood(problem, record, BLOCKS), written_out, rtol=1e-9)


@pytest.mark.long
def test_it_converges_to_the_solution() -> None:
    """By a factor of eight and more per halved step: the mean has order q = 4 or better, and data weigh errors."""
    problem, record = problem_and_record(3)
    exact = log_likelihood(problem, record, ps.Solver(linearisation="ekf1", conditioning="solver", substeps=32))
    errors = [
        np.max(np.abs(log_likelihood(problem, record, ps.Solver(linearisation="block-ekf1", substeps=n)) - exact))
        for n in (4, 8, 16)
    ]
    assert errors[1] < errors[0] / 8 and errors[2] < errors[1] / 8
    assert errors[2] < 0.01


def test_large_models_take_it_where_nothing_else_is_asked_for() -> None:
    large, small = chain(LARGEST_UNROLLED // 5 + 2), chain(2)
    chosen = ps.Solver().for_model(large, process_noise=False)
    assert chosen.linearisation == BlockEKF1() and chosen.conditioning == "solver"
    for solver, model, disturbed in (
        (ps.Solver(), small, False),
        (ps.Solver(), large, True),
        (ps.Solver(substeps=2), large, False),
        (ps.Solver(conditioning="joint"), large, False),
    ):
        kept = solver.for_model(model, process_noise=disturbed)
        assert kept.linearisation == solver.linearisation and kept.conditioning == "joint"


def test_what_it_cannot_do_is_refused() -> None:
    with pytest.raises(ps.InputError, match="does not reach the others"):
        ps.Solver(linearisation="block-ekf1", conditioning="joint")
    with pytest.raises(ps.InputError, match="process noise has to be followed"):
        BLOCKS.for_model(chain(2), process_noise=True)


@pytest.mark.long
def test_the_posterior_of_a_large_model_is_that_of_the_full_filter() -> None:
    problem, record = problem_and_record(4)
    initial = {name: 0.0 if prior is None else prior for name, prior in problem.initials[0].items()}
    given = (problem.model, record, dict(problem.priors), {"last": NOISE}, initial)
    blocks, full = (
        ps.identify(*given, solver=ps.Solver(conditioning=c), sampler=ps.Sampler(particles=512))
        for c in ("auto", "joint")
    )
    assert blocks.setup.solver.linearisation == BlockEKF1() and blocks.check.adequate and full.check.adequate
    for name in ("k", "c"):  # two runs of some 300 effective particles each
        assert abs(blocks.mean(name) - full.mean(name)) < 4 * full.sd(name) * np.sqrt(2 / 300)
        assert abs(np.log(blocks.sd(name) / full.sd(name))) < 4 / np.sqrt(300)
    error = np.hypot(blocks.log_evidence_error, full.log_evidence_error)
    assert abs(blocks.log_evidence - full.log_evidence) < 4 * error + 0.05
