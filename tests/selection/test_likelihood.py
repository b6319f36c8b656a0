"""Derivatives with which screening climbs: gradients of the log density, and the expected information."""

import jax
import numpy as np
import pytest

from probsysid import dist
from probsysid.selection.likelihood import Lanes, Statistics
from probsysid.selection.menu import Menu
from probsysid.selection.screening import Screening
from tests.selection import linear


def test_gradient_and_information_of_constants_and_noise() -> None:
    """The gradient is that of differences; a noise level counts 2 for every sample, and its prior of width 1 once."""
    given = linear.options(seed=0, method="sample", noise={"x": dist.LogNormal(np.log(0.1), 1.0)})
    shared = {name: given.pop(name) for name in ("priors", "noise", "initial")}
    menu = Menu.make(linear.model, linear.terms, linear.measure(), **shared, options=given)
    screening = Screening(menu)
    problem, live = screening.problem, screening.live(frozenset("bd"))
    free, theta = np.flatnonzero(live), np.asarray(problem.space.sample(jax.random.key(1), 1))[:, 0]
    switches = np.array([float(name in "bd") for name in linear.terms.names])
    sites = np.array([float(live[site.start]) for site in problem.space.sites])

    def lanes(thetas: np.ndarray) -> Lanes:
        return Lanes(thetas, *(np.repeat(each[None], len(thetas), axis=0) for each in (switches, sites)))

    statistics = Statistics.of(problem, menu.records, 4)
    found = statistics.statistics(lanes(theta[None]), [free])
    step = 1e-5
    around = np.stack([theta + sign * step * np.eye(len(theta))[i] for i in free for sign in (1, -1)])
    values = statistics.values(lanes(around))
    slopes = (values[::2] - values[1::2]) / (2 * step)
    np.testing.assert_allclose(found.gradient[0, : len(free)], slopes, rtol=1e-5, atol=1e-6 * np.abs(slopes).max())
    (level,) = (site.start for site in problem.space.sites if str(site.name).startswith("noise"))
    place = list(free).index(level)
    assert found.information[0, place, place] == pytest.approx(2 * linear.SAMPLES + 1, rel=1e-12)
