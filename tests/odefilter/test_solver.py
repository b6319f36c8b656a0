"""Settings of the solver: explicit and automatic choices, and the error messages for wrong ones."""

from dataclasses import replace
from typing import Any

import pytest

import probsysid as ps
from probsysid.odefilter.linearise import EKF0, EKF1
from probsysid.posterior.diagnostics.solver_check import at_level


def model() -> ps.Model:
    return ps.Model({"x": 2, "z": 1}, lambda s, u, p: {"x": -s.x - s.z, "z": -s.z}, name="test model")


def test_defaults() -> None:
    solver = ps.Solver()
    ode_filter = solver.ode_filter(model())
    assert isinstance(ode_filter.linearisation, EKF1)
    assert ode_filter.diffusion == ps.Dynamic(2.0, floor=0.1, coupled=True)
    assert ode_filter.joint and not ode_filter.restarts and ode_filter.ode_noise == 0.0
    assert solver.steps == 1
    assert ode_filter.layout.smoothness == (4, 3)  # the order plus two


def test_steps_that_are_given_may_be_long() -> None:
    """Given steps get the defaults that are calibrated at long steps, unless set; automatic steps get the others."""
    given = ps.Solver(substeps=1)
    assert given.linearisation == EKF1(iterations=3)
    assert given.diffusion == ps.Dynamic(2.0, floor=0.1, coupled=True)
    assert ps.Solver(substeps=1, linearisation="ekf1") == replace(ps.Solver(), substeps=1)
    assert at_level(ps.Solver(), level=2).linearisation == EKF1()
    assert ps.Solver(substeps=2, diffusion=1.0).linearisation == EKF1(iterations=3)
    assert ps.Solver.paper().linearisation == EKF0()


def test_the_papers_choices() -> None:
    ode_filter = ps.Solver.paper(smoothness=3).ode_filter(model())
    assert isinstance(ode_filter.linearisation, EKF0)
    assert isinstance(ode_filter.diffusion, ps.QuasiMLE)
    assert not ode_filter.joint
    assert ode_filter.layout.smoothness == (3, 3)
    assert ps.Solver.paper().layout(model()).smoothness == (3, 2)  # the order plus one
    assert ps.Solver.paper().steps == ps.Solver.paper().substeps == 1


def test_names_stand_for_objects() -> None:
    solver = ps.Solver(linearisation="EKF0", diffusion="quasi_mle")
    assert solver == ps.Solver(linearisation=ps.EKF0(), diffusion=ps.QuasiMLE())
    assert ps.Solver(diffusion="dynamic").diffusion == ps.Dynamic()
    assert ps.Solver(diffusion=2).diffusion == ps.Fixed(2.0)


def test_smoothness_by_name() -> None:
    solver = ps.Solver(smoothness={"z": 4})
    assert solver.layout(model()).smoothness == (4, 4)
    assert hash(solver) == hash(ps.Solver(smoothness={"z": 4}))  # settings are keys of compiled programs


@pytest.mark.parametrize(
    ("smoothness", "jump_order", "restarts"),
    [
        (3, None, False),
        (3, 0, True),  # held inputs: the highest derivative itself jumps
        (3, 1, True),  # linear inputs: the derivative after it jumps, which q = 3 carries for x
        ({"x": 2, "z": 1}, 1, False),  # no component is of an order high enough for the jump to reach
    ],
)
def test_restarts_where_a_jump_reaches_the_state(smoothness: Any, jump_order: int | None, restarts: bool) -> None:
    assert ps.Solver(smoothness=smoothness).ode_filter(model(), jump_order).restarts is restarts


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"linearisation": "ekf2"}, r"linearisation is 'ekf2'; known are: ekf0, ekf1, block-ekf1\. Did you mean"),
        ({"diffusion": "dinamic"}, r"diffusion is 'dinamic'; known are: quasi-mle, dynamic, inferred\. Did you"),
        (
            {"conditioning": "solve"},
            r"conditioning is 'solve'; it must be 'auto', 'joint' or 'solver'\. Did you mean 'solver'\?",
        ),
        ({"substeps": 0}, r"substeps is 0; it must be a whole number from 1 to 10000, or 'auto'"),
        ({"substeps": 1.5}, r"substeps is 1\.5"),
        ({"substeps": True}, r"substeps is True"),
        ({"ode_noise": -1.0}, r"ode_noise is -1\.0; it must be a finite number, 0 or more"),
        ({"ode_noise": float("nan")}, r"ode_noise is nan"),
    ],
)
def test_wrong_settings_are_refused_at_once(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ps.InputError, match=message):
        ps.Solver(**settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"smoothness": 1}, r"smoothness of 'x' is 1; it must be a whole number from the order of its ODE, 2, to 11"),
        ({"smoothness": 12}, r"smoothness of 'x' is 12"),
        ({"smoothness": 2.5}, r"smoothness of 'x' is 2\.5"),
        ({"smoothness": {"y": 2}}, r"smoothness names 'y', which is not a coordinate of the test model"),
        ({"diffusion": ps.Fixed((1.0,))}, r"the fixed diffusion has 1 values; the test model has 2 coordinates"),
    ],
)
def test_settings_that_do_not_fit_the_model_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ps.InputError, match=message):
        ps.Solver(**settings).ode_filter(model())
