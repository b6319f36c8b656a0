"""A record of fifty samples with any change."""

from typing import Any

import numpy as np

from probsysid import Record

T = 50
FORCE, POSITION = np.random.default_rng(0).standard_normal((2, T))
WORDS = ["zoh", "linear", "bandlimited", "periodic"]


def record(**changes: Any) -> Record:
    """A force as input and a position as output, both white noise, with `changes` to the arguments."""
    arguments: dict[str, Any] = {"inputs": {"force": FORCE}, "outputs": {"position": POSITION}, "dt": 0.1}
    return Record(**{**arguments, **changes})
