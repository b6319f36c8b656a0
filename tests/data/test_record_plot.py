"""Plots of records."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pytest
from matplotlib import pyplot

from probsysid import InputError, Record
from tests.data.records import FORCE, POSITION, record


def test_plot(tmp_path):
    y = POSITION.copy()
    y[[3, 20, 21, 22]] = np.nan
    inputs = {"a": FORCE, "b": FORCE, "c": np.sin}
    r = Record(inputs, {"y": y}, dt=0.1, units={"y": "mm"}, intersample={"a": "zoh"})
    figure = r.plot(tmp_path / "record.png")
    assert (tmp_path / "record.png").stat().st_size > 10_000
    assert pyplot.get_fignums() == []  # saved, so closed
    assert [ax.get_ylabel() for ax in figure.axes] == ["a", "b", "c", "y [mm]"]
    (bars,) = figure.axes[-1].collections
    assert [(p.get_extents().x0, p.get_extents().x1) for p in bars.get_paths()] == [
        pytest.approx((0.25, 0.35)),
        pytest.approx((1.95, 2.25)),
    ]


def test_plot_into_axes():
    figure, axes = pyplot.subplots(3)
    with pytest.raises(InputError, match="2 channels to plot, but 3 axes"):
        record().plot(axes=axes)
    assert record().plot(axes=axes[:2]) is figure
    pyplot.close(figure)
    with pytest.raises(InputError, match="no channels"):
        Record(time=[0, 1]).plot()


@pytest.mark.parametrize("text", ["$", "$$", "US$ and k$", r"$\\nonsense{$", "$x^$"])
def test_dollar_signs_are_no_formulas(tmp_path: Path, text: str) -> None:
    record = Record({"u": [0, 1]}, {"y": [0, 1]}, dt=1.0, units={"u": text, "y": text}, name=text)
    figure = record.plot(tmp_path / "a.png")
    assert figure.axes[0].get_title() == text and figure.axes[0].get_ylabel() == f"u [{text}]"
