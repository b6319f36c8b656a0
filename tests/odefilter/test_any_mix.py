"""Any mix of orders, smoothness, outputs, gaps, steps, blocks and settings: the same energies as the textbook filter.

Each new structure takes seconds to compile.  So a few are chosen such that every setting occurs in several
combinations, a few more are drawn at random, and each is used for two sets of numbers.
"""

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from probsysid.odefilter.diffusion import Dynamic, Fixed, QuasiMLE
from probsysid.odefilter.linearise import EKF0, EKF1
from tests.odefilter.cases import Blocks
from tests.odefilter.problems import random_case
from tests.odefilter.textbook import digits, textbook_energies

# Numbers are of order one and the textbook has 30 digits: the difference is the fast filter's round-off.  The largest
# over 70 structures, up to 8 components, was 6e-15.
TOLERANCE = 1e-10


def check(structure: dict[str, Any], block: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    first = random_case(rng, **structure)
    filter = Blocks(first.ode_filter, block)
    for case in (first, random_case(rng, **structure)):
        expected = textbook_energies(case, digits(30))
        np.testing.assert_allclose(case.energies(filter), expected, rtol=TOLERANCE, atol=TOLERANCE)


def structure(orders: tuple[int, ...], smoothness: tuple[int, ...], outputs: int, **settings: Any) -> dict[str, Any]:
    return {"samples": 6, "particles": 5, "orders": orders, "smoothness": smoothness, "outputs": outputs} | settings


ERROR = np.linspace(0.2, 1.0, 10).reshape(2, 5)

CHOSEN = [
    structure((2,), (3,), 2, diffusion=QuasiMLE(), missing=0.3),
    structure((2, 1), (3, 1), 3, diffusion=Dynamic(4.0, floor=0.5, coupled=True), uniform=False, process_noise=ERROR),
    structure((1,), (3,), 2, diffusion=Dynamic(), restarts=True, substeps=2, uniform=False),
    structure((1, 1), (1, 2), 2, diffusion=Fixed((0.7, 1.3)), restarts=True, uniform=False, ode_noise=0.2),
    structure((3,), (4,), 1, linearisation=EKF0(), joint=False, uniform=False, missing=0.3, process_noise=ERROR[:1]),
    structure((1, 2), (2, 2), 2, linearisation=EKF0(), diffusion=Dynamic(), ode_noise=0.2, missing=0.3),
    structure((1, 2), (1, 3), 1, joint=False, restarts=True),
]


LONG = (0, 2, 6)
"""The others have what these have: all seven take about 18 s of processor time, most of it compilation."""


@pytest.mark.parametrize(
    "number", [pytest.param(n, marks=[pytest.mark.long] * (n in LONG)) for n in range(len(CHOSEN))]
)
def test_chosen_structures(number: int) -> None:
    """Blocks of 1, 2, 3, 4 and more particles, of 5 in all."""
    check(CHOSEN[number], block=number % 6 + 1, seed=number)


MAX_SIZE = 5
"""Components of the state: compile time grows with its square."""


@st.composite
def structures(draw: Any) -> dict[str, Any]:
    orders = draw(st.lists(st.integers(1, 3), min_size=1, max_size=2).filter(lambda n: sum(n) + len(n) <= MAX_SIZE))
    smoothness = list(orders)
    for c in range(len(orders)):
        room = MAX_SIZE - sum(smoothness) - len(smoothness)
        smoothness[c] += draw(st.integers(0, min(2, room)))
    coordinates = len(orders)
    small = sum(smoothness) + coordinates <= 4
    particles = draw(st.integers(1, 5))
    diffusions = [
        QuasiMLE(),
        Dynamic(2.0, floor=0.1, coupled=True),
        Dynamic(),
        Dynamic(4.0),
        Fixed(0.7),
        Fixed((0.7, 1.3)[:coordinates]),
    ]
    return {
        "orders": orders,
        "smoothness": smoothness,
        "outputs": draw(st.integers(1, 3)),
        "samples": draw(st.integers(3, 6)),
        "particles": particles,
        "substeps": draw(st.integers(1, 2)) if small else 1,
        "missing": draw(st.sampled_from([0.4, 0.0])),
        "uniform": draw(st.booleans()),
        "linearisation": draw(st.sampled_from([EKF1(), EKF1(), EKF0()])),
        "diffusion": draw(st.sampled_from(diffusions)),
        "joint": draw(st.sampled_from([True, True, False])),
        "restarts": draw(st.booleans()) if small else False,
        "ode_noise": draw(st.sampled_from([0.0, 0.0, 0.2])),
        "process_noise": draw(st.sampled_from([None, np.full((coordinates, particles), 0.4)])),
    }


# No shrinking: every attempt would compile again.  A failing structure is small enough to read.
@pytest.mark.long
@settings(max_examples=6, phases=[Phase.explicit, Phase.generate], suppress_health_check=[HealthCheck.too_slow])
@given(structure=structures(), block=st.integers(1, 6), seed=st.integers(0, 10**6))
def test_random_structures(structure: dict[str, Any], block: int, seed: int) -> None:
    check(structure, block, seed)
