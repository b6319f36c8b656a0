"""Precision in plain words."""

import numpy as np
import pandas as pd
import pytest

from probsysid.report.precision import in_words, percent


def table(**rows: tuple[float, float, str]) -> pd.DataFrame:
    """Gaussian posteriors: mean, sd, flags."""
    frame = pd.DataFrame(rows, index=["mean", "sd", "flags"]).T
    frame["q05"], frame["q95"] = frame["mean"] - 1.645 * frame["sd"], frame["mean"] + 1.645 * frame["sd"]
    return frame


def test_from_the_best_known_to_what_is_not() -> None:
    rows = {"m": (1.0, 0.012, ""), "k3": (-500.0, 1.0, ""), "c": (1.0, 0.55, ""), "k2": (0.1, 1.0, "")}
    found = in_words(table(**rows, g=(2.0, 1.0, "at prior")), ["m", "k3", "c", "k2", "g"])
    assert found == [
        "k3 is known to 0.2 % and m to 1.2 %",
        "c is known by size only: to about a factor of two",
        "the sign of k2 is not known: zero is within the 90 % interval",
        "the data say nothing of g: the posterior is the prior",
    ]
    assert in_words(table(m=(1.0, 0.5, "tied to k"), k=(0.0, 0.0, "")), ["m"]) == [
        "m is known by size only: to about a factor of two"
    ]


@pytest.mark.parametrize(
    ("relative", "text"),
    [
        (0.002, "0.2 %"),
        (0.0151, "1.5 %"),
        (0.12, "12 %"),
        (0.38, "40 %"),
        (1.9e-5, "0.0019 %"),
        (1e-8, "less than 0.0001 %"),
    ],
)
def test_percent(relative: float, text: str) -> None:
    assert percent(relative) == text
    assert percent(np.float64(relative)) == text
