"""Any mix of orders, smoothness, outputs, gaps, steps, blocks and settings: the same energies as the textbook filter.

Each new structure takes seconds to compile, so examples are few and each is used for two sets of numbers.
"""

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from probsysid.odefilter.calibrate import Dynamic, Fixed, QuasiMLE
from probsysid.odefilter.linearise import EKF0, EKF1
from tests.odefilter.cases import Blocks
from tests.odefilter.problems import random_case
from tests.odefilter.textbook import digits, textbook_energies

# Numbers are of order one and the textbook has 30 digits: what differs is the fast filter's round-off.  The largest
# difference over 70 structures, up to 8 components, was 6e-15.
TOLERANCE = 1e-10

MAX_SIZE = 5
"""Components of the state: compile time grows with the square of it."""


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
    return {
        "orders": orders,
        "smoothness": smoothness,
        "outputs": draw(st.integers(1, 3)),
        "samples": draw(st.integers(2, 6)),
        "particles": particles,
        "substeps": draw(st.integers(1, 2)) if small else 1,
        "missing": draw(st.sampled_from([0.0, 0.4])),
        "uniform": draw(st.booleans()),
        "linearisation": draw(st.sampled_from([EKF0(), EKF1(), EKF1()])),
        "diffusion": draw(
            st.sampled_from(
                [QuasiMLE(), QuasiMLE(), Dynamic(), Dynamic(4.0), Fixed(0.7), Fixed((0.7, 1.3)[:coordinates])]
            )
        ),
        "joint": draw(st.booleans()),
        "restarts": draw(st.booleans()) if small else False,
        "ode_noise": draw(st.sampled_from([0.0, 0.0, 0.2])),
        "model_error": draw(st.sampled_from([None, np.full((coordinates, particles), 0.4)])),
    }


@pytest.mark.slow
@settings(max_examples=10, suppress_health_check=[HealthCheck.too_slow])
@given(structure=structures(), block=st.integers(1, 6), seed=st.integers(0, 10**6))
def test_energies_are_the_textbook_filters(structure: dict[str, Any], block: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    first = random_case(rng, **structure)
    filter = Blocks(first.system, block)
    for case in (first, random_case(rng, **structure)):
        expected = textbook_energies(case, digits(30))
        np.testing.assert_allclose(case.energies(filter), expected, rtol=TOLERANCE, atol=TOLERANCE)
