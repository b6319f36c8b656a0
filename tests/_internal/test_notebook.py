"""Cards for notebooks: small pictures and escaped texts."""

import numpy as np

from probsysid._internal.notebook import Card, Histogram, Signal, Verdict, html


def test_a_histogram_counts_weights() -> None:
    values, weights = np.array([0.0, 1.0, 1.0, 2.0]), np.array([0.1, 0.4, 0.4, 0.1])
    heights = np.array(Histogram.of(values, weights).heights)
    assert heights.max() == 1 and heights[0] == heights[-1] == 0.125
    assert Histogram.of(np.ones(3), np.full(3, 1 / 3)).heights == [1.0]


def test_no_peak_of_a_long_signal_is_left_out() -> None:
    values = np.zeros(100_000)
    values[54_321] = 1.0
    (line,) = Signal.of(np.arange(100_000.0), values).points
    heights = [float(point.split(",")[1]) for point in line.split()]
    assert min(heights) == 1.0 and heights.count(1.0) == 1 and len(heights) < 1000


def test_a_signal_is_interrupted_where_values_are_missing() -> None:
    values = np.array([0.0, 1.0, np.nan, 1.0, 0.0])
    assert len(Signal.of(np.arange(5.0), values).points) == 2
    assert Signal.of(np.arange(2.0), np.full(2, np.nan)).points == []


def test_texts_are_escaped_and_lights_coloured() -> None:
    page = html(Card("<i>", ["a & b"], [Verdict("model", "bad", "1 < 2.")], ("<u>",), [["<s>"]]))
    assert "&lt;i&gt;" in page and "a &amp; b" in page and "1 &lt; 2." in page and "<s>" not in page
    assert "#c0392b" in page
