"""Indices of the state's components."""

import numpy as np
import pytest

from probsysid.odefilter import iwp
from probsysid.odefilter.layout import Layout


def test_components_of_mixed_orders() -> None:
    layout = Layout(orders=(2, 1, 3), smoothness=(3, 1, 4))
    assert layout.size == 4 + 2 + 5
    assert layout.names(["x", "y", "z"]) == (
        *("x", "dx", "ddx", "dddx"),
        *("y", "dy"),
        *("z", "dz", "ddz", "dddz", "ddddz"),
    )
    names = np.array(layout.names(["x", "y", "z"]))
    assert list(names[list(layout.physical)]) == ["x", "dx", "y", "z", "dz", "ddz"]
    assert list(names[list(layout.highest)]) == ["ddx", "dy", "dddz"]
    assert list(names[list(layout.higher)]) == ["dddx", "ddddz"]
    assert layout.coordinate == (0, 0, 0, 0, 1, 1, 2, 2, 2, 2, 2)


def test_matrices_are_block_diagonal() -> None:
    layout = Layout(orders=(1, 2), smoothness=(1, 3))
    expected = np.zeros((6, 6))
    expected[:2, :2], expected[2:, 2:] = iwp.transition(1), iwp.transition(3)
    np.testing.assert_array_equal(layout.transition, expected)
    expected[:2, :2], expected[2:, 2:] = iwp.process_factor(1), iwp.process_factor(3)
    np.testing.assert_array_equal(layout.process_factor, expected)
    np.testing.assert_array_equal(layout.scales(0.3), [*iwp.scale(1, 0.3), *iwp.scale(3, 0.3)])


def test_smoothness_below_the_order_is_refused() -> None:
    with pytest.raises(AssertionError):
        Layout(orders=(2,), smoothness=(1,))
