"""A Duffing oscillator whose cubic stiffness stands on a menu: found with and without screening."""

import pytest

import probsysid as ps
from probsysid import dist
from tests import duffing

LINEAR = ps.Model(
    {"x": 2}, lambda s, u, p: {"x": (u.force - p.c * s.dx - p.k * s.x) / p.m}, lambda s, u, p: {"position": s.x}
)
MENU = ps.Terms(
    ps.catalogue_term("cubic-stiffness", "x", {"k3": duffing.PRIORS["k3"]}, mass="m"),
    ps.catalogue_term("force-offset", "x", {"f0": dist.Normal(0, 0.1)}, mass="m"),
    ps.catalogue_term("sensor-offset", "position", {"y0": dist.Normal(0, 0.1)}),
    exclusive=[("force-offset", "sensor-offset")],
)


@pytest.mark.slow
@pytest.mark.parametrize("screen", [True, pytest.param(False, marks=pytest.mark.long)])
def test_the_cubic_stiffness_is_found(screen: bool) -> None:
    given = duffing.options(method="map", search=ps.SearchOptions(screen=screen, beam=1))
    given["priors"] = {name: duffing.PRIORS[name] for name in "mck"}
    found = ps.select(LINEAR, MENU, duffing.measure(150), **given)
    assert found.best.names == {"cubic-stiffness"}
    assert found.inclusion["cubic-stiffness"] > 0.99 and found.inclusion["sensor-offset"] < 0.5
    assert bool(found.screened) is screen and any("not screened" in note for note in found.notes) is not screen
    # Laplace's approximation of the same posterior twice, by Runge-Kutta with expected information and by the filter
    # with the curvature itself: relative differences of a curvature are of the order of its relative error, 1/sqrt(150)
    for model in found.models if screen else ():
        assert abs(found.screened[model.names] - model.log_evidence) < 4 * 5 / 150**0.5
