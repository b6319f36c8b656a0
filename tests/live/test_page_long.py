"""An hour of stream leaves the page as it was: flat memory, and as many points."""

import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import probsysid as ps
from probsysid.live.feed import NEWEST, POINTS
from tests.live import lag
from tests.live.test_page import SOURCE, until
from tests.report.browser import Browser, opened

pytestmark = pytest.mark.long

window = pytest.fixture(scope="module")(opened)

HOUR, RATE = 3600, 20
"""Seconds, and samples per second."""


def heap(page: Browser) -> float:
    """Megabytes in use after a collection."""
    page.command("HeapProfiler.enable", {})
    page.command("HeapProfiler.collectGarbage", {})
    return page.run("return performance.memory.usedJSHeapSize") / 1e6


def test_an_hour_of_stream_leaves_memory_and_page_flat(window: Browser) -> None:
    """What the engine would tell in an hour is told in a minute: four rows of numbers per second of the stream."""
    random = np.random.default_rng(0)
    with ps.Live(lag.model, dt=lag.DT, **lag.OPTIONS, port=0) as live:
        rows = lag.measure(50)
        live.push({"u": rows[:, 1], "level": rows[:, 2]}, rows[:, 0])
        live.wait(120)
        feed = live._session.engine.feed
        status, densities = feed.status, feed.densities
        samples, numbers = (len(feed.samples_since(0).columns), len(feed.numbers_since(0).columns))
        window.resize(1200, 900)
        window.post("/url", {"url": live.url})
        until(lambda: window.run("return Bokeh?.documents?.length > 0"), "no document")
        heaps, nodes = [], []
        for minute in range(60):
            block = random.standard_normal((60 * RATE, samples))
            block[:, 0] = 60 * minute + np.arange(60 * RATE) / RATE
            for part in np.array_split(block, 6):
                feed.add_samples(part)
                for second in range(40):
                    row = random.standard_normal(numbers)
                    row[0] = part[0, 0] + second / 4
                    feed.add_numbers(row, status, densities)
                time.sleep(0.15)
            if minute in (19, 59):
                time.sleep(2)
                heaps.append(heap(window))
                nodes.append(window.run("return document.getElementsByTagName('*').length"))
        counts = SimpleNamespace(
            samples=window.run(SOURCE + "return column('measured:level').length"),
            numbers=window.run(SOURCE + "return column('ess').length"),
        )
        shown: Any = window.run(SOURCE + "return column('time').at(-1)")
    assert counts.samples <= NEWEST
    assert counts.numbers <= 2 * POINTS
    assert shown == pytest.approx(HOUR - 1 / RATE)
    # both after the columns have been filled; the engine's collector leaves a few megabytes either way
    assert heaps[1] < heaps[0] + 5, heaps
    assert nodes[1] == nodes[0]
