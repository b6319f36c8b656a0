"""The page in a real browser, and who may see it."""

import http.client
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import probsysid as ps
from probsysid.live.dashboard.access import is_loopback
from probsysid.live.dashboard.page import sentences
from probsysid.live.dashboard.server import Page
from tests.live import lag
from tests.report.browser import Browser, opened

window = pytest.fixture(scope="module")(opened)

SAMPLES = 240

SOURCE = """
const doc = Bokeh.documents[0]
const all = [...(doc.all_models ?? doc._all_models.values())]
const source = name => all.find(m => m.type === "ColumnDataSource" && name in m.data)
const column = name => Array.from(source(name).data[name])
"""

PRESS_PAUSE = """
const buttons = []
function walk(node) {
  if (node.tagName === "BUTTON") buttons.push(node)
  for (const child of [...(node.shadowRoot?.children ?? []), ...node.children]) walk(child)
}
walk(document.body)
buttons.find(b => b.textContent.trim() === "Pause").click()
"""


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    return lag.measure(SAMPLES)


@pytest.fixture(scope="module")
def live(rows: np.ndarray) -> Iterator[ps.Live]:
    with ps.Live(lag.model, dt=lag.DT, **lag.OPTIONS, port=0) as found:
        found.push({"u": rows[:200, 1], "level": rows[:200, 2]}, rows[:200, 0])
        assert found.wait(120)
        yield found


def until(condition: Callable[[], Any], what: str, seconds: float = 30.0) -> Any:
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, f"after {seconds:g} s: {what}"
        time.sleep(0.1)
    return found


@pytest.fixture
def page(window: Browser, live: ps.Live) -> Browser:
    window.resize(1200, 900)
    window.post("/url", {"url": live.url})
    until(lambda: window.run("return Bokeh?.documents?.length > 0"), "no document")
    until(lambda: window.run("return document.getElementById('samples').textContent !== '0'"), "no words")
    return window


def test_values_on_the_page_are_those_of_the_stream(page: Browser, live: ps.Live, rows: np.ndarray) -> None:
    until(lambda: len(page.run(SOURCE + "return column('measured:level')")) >= 200, "too few samples")
    np.testing.assert_allclose(page.run(SOURCE + "return column('measured:level')")[:200], rows[:200, 2])
    np.testing.assert_allclose(page.run(SOURCE + "return column('time')")[:200], rows[:200, 0], atol=1e-9)
    shown = page.run(SOURCE + "return column('q50:a').at(-1)")
    assert shown == pytest.approx(live.posterior.quantile("a", 0.5), rel=1e-12)
    assert page.run("return document.getElementById('verdict').textContent") == "the data fit the model"
    # no text leaves its box, and nothing lies beside the page
    assert page.run("return document.documentElement.scrollWidth <= window.innerWidth")
    errors = [entry for entry in page.log() if entry["level"] == "SEVERE"]
    assert not errors, errors


def test_pause_holds_the_page_and_lets_it_catch_up(page: Browser, live: ps.Live, rows: np.ndarray) -> None:
    count = SOURCE + "return column('measured:level').length"
    until(lambda: page.run(count) >= 200, "too few samples")
    page.run(PRESS_PAUSE)
    until(lambda: "PAUSED" in page.run("return document.getElementById('verdict').textContent"), "not paused")
    before = page.run(count)
    live.push({"u": rows[200:, 1], "level": rows[200:, 2]}, rows[200:, 0])
    live.wait(60)
    time.sleep(0.8)  # three updates
    assert page.run(count) == before
    page.run(PRESS_PAUSE)
    until(lambda: page.run(count) == SAMPLES, "not caught up")


def test_zoom_stays_while_data_come(page: Browser) -> None:
    find = SOURCE + "const plot = all.find(m => m.type === 'Figure'); "
    until(lambda: page.run(find + "return plot.x_range.end > 10"), "no range")
    place = page.run(
        find
        + "const view = Bokeh.index.find_one(plot); const box = view.frame.bbox, el = view.el.getBoundingClientRect();"
        "const tool = plot.toolbar.tools.find(t => t.type === 'BoxZoomTool'); plot.toolbar.active_drag = tool;"
        "tool.active = true; return [el.left + box.left, el.top + box.top, box.width, box.height]"
    )
    left, top, width, height = (int(v) for v in place)
    page.drag((left + width // 4, top + height // 2), (left + width // 2, top + height // 2 + 5))
    before = until(
        lambda: page.run(find + "return plot.x_range.start > 1 && [plot.x_range.start, plot.x_range.end]"), "no zoom"
    )
    time.sleep(0.8)
    assert page.run(find + "return [plot.x_range.start, plot.x_range.end]") == before


def test_a_phone_has_one_column_and_nothing_beside_it(page: Browser, live: ps.Live) -> None:
    page.resize(390, 844)
    page.post("/url", {"url": live.url})
    until(lambda: page.run("return document.querySelectorAll('.cell').length > 3"), "no cells")
    time.sleep(1)
    assert page.run("return document.documentElement.scrollWidth") <= 390
    lefts = page.run("return [...document.querySelectorAll('.cell')].map(e => e.getBoundingClientRect().left)")
    assert len(set(lefts)) == 1


def test_a_mark_is_text_and_nothing_else(page: Browser, live: ps.Live) -> None:
    engine = live._session.engine
    engine.mark("<img src=x onerror=alert(1)>")
    until(lambda: page.run(SOURCE + "return column('short').length") >= 1, "no mark")
    assert page.run("return document.querySelectorAll('img').length") == 0


# Who may see it


def get(url: str, **headers: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def upgrade(port: int, path: str = "/ws", **headers: str) -> int:
    """The status with which a websocket is answered: 101 opens it."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    usual = {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
        "Sec-WebSocket-Protocol": "bokeh, none",
    }
    connection.request("GET", path, headers=usual | headers)
    status = connection.getresponse().status
    connection.close()
    return status


def test_only_this_machine_is_served_by_default(live: ps.Live) -> None:
    page = live._page
    assert page.url.startswith("http://127.0.0.1:")
    others = [a for a in _addresses() if not is_loopback(a)]
    for address in others:
        with pytest.raises(OSError):
            socket.create_connection((address, page._port), timeout=1)


def test_a_websocket_of_another_origin_is_refused(live: ps.Live) -> None:
    port = live._page._port
    assert upgrade(port, Origin="http://evil.example", Host=f"127.0.0.1:{port}") == 403
    assert upgrade(port, Origin=f"http://127.0.0.1:{port + 1}") == 403


def test_elsewhere_a_token_is_needed(live: ps.Live) -> None:
    engine = live._session.engine
    with pytest.raises(ps.InputError, match="needs a token"):
        Page(engine, "lag", address="0.0.0.0")
    token = "0123456789abcdef0123"
    page = Page(engine, "lag", address="0.0.0.0", token=token)
    try:
        base = f"http://127.0.0.1:{page._port}/"
        for wrong in ("", "?token=", "?token=wrong", f"?token={token[:-1]}", f"?token={token}x"):
            status, text = get(base + wrong)
            assert status == 403 and "needs its token" in text
            assert "bokeh" not in text.lower()
        status, text = get(f"{base}?token={token}")
        assert status == 200 and "bokeh" in text.lower()
        assert get(base, Cookie=f"probsysid_token={token}")[0] == 200
        origin = {"Origin": f"http://127.0.0.1:{page._port}"}
        assert upgrade(page._port, **origin) == 403
        assert upgrade(page._port, **origin, Cookie=f"probsysid_token={token}x") == 403
        assert token in page.url
    finally:
        page.close()


def test_a_port_that_is_taken_is_one_sentence(live: ps.Live) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ps.InputError, match=f"127.0.0.1:{port}: address already in use; choose another --port"):
            Page(live._session.engine, "lag", port=port)


def _addresses() -> list[str]:
    try:
        return sorted({str(item[4][0]) for item in socket.getaddrinfo(socket.gethostname(), None)})
    except OSError:
        return []


# Words


def test_the_page_says_when_it_cannot_keep_up_and_by_how_much() -> None:
    counts = {k: 0 for k in ("gaps", "late", "duplicate", "reordered", "malformed", "off_grid", "restarts")}
    status = {
        "state": "reads a file",
        "processed": 10,
        "lag_samples": 5000,
        "lag_seconds": 12.0,
        "load": 1.0,
        "behind": "cannot keep up: 300 of 610 samples per second",
        "blocked": 0.0,
        "counts": {**counts, "late": 3, "last_problem": "a gap"},
        "leading": "lag",
        "failures": {},
        "alarm": "",
        "settling": "",
        "ended": False,
    }
    words = sentences(status, paused=False, said="")
    assert words["verdict"] == "cannot keep up: 300 of 610 samples per second" and words["level"] == "bad"
    assert words["counts"] == "3 late" and words["problem"] == "a gap"
    assert sentences(status | {"behind": ""}, paused=True, said="")["verdict"] == "PAUSED  the data fit the model"
    soon = sentences(status | {"behind": "", "settling": "started again"}, paused=False, said="")
    assert (soon["verdict"], soon["level"]) == ("started again", "wait")
    assert sentences({}, paused=False, said="")["verdict"] == "waiting for samples"
