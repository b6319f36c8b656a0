"""A real browser, driven through chromedriver's own protocol (W3C WebDriver over HTTP)."""

import base64
import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

DRIVER = shutil.which("chromedriver")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
MISSING = "chromium and chromedriver are not installed (Debian: apt-get install chromium chromium-driver)"


def available() -> bool:
    return DRIVER is not None and CHROMIUM is not None


class Browser:
    """One window."""

    def __init__(self, port: int):
        self.base = f"http://127.0.0.1:{port}"
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage"]
        options = {"binary": CHROMIUM, "args": arguments}
        capabilities = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        answer = self.post("/session", {"capabilities": {"alwaysMatch": capabilities}})
        self.base += f"/session/{answer['sessionId']}"

    def post(self, path: str, content: dict[str, Any]) -> Any:
        request = urllib.request.Request(
            self.base + path, json.dumps(content).encode(), {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.loads(answer.read())["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode()) from None

    def open(self, path: Path, wait: str = "return true") -> None:
        """Load a file and wait until a script returns true."""
        self.post("/url", {"url": path.absolute().as_uri()})
        end = time.monotonic() + 30
        while not self.run(wait):
            assert time.monotonic() < end, f"{path} was not ready after 30 s"
            time.sleep(0.05)

    def run(self, script: str) -> Any:
        return self.post("/execute/sync", {"script": script, "args": []})

    def log(self) -> list[dict[str, Any]]:
        """Console messages since the last call."""
        return self.post("/se/log", {"type": "browser"})

    def screenshot(self, path: Path) -> bytes:
        request = urllib.request.urlopen(self.base + "/screenshot", timeout=60)
        picture = base64.b64decode(json.loads(request.read())["value"])
        path.write_bytes(picture)
        return picture

    def pdf(self) -> bytes:
        return base64.b64decode(self.post("/print", {}))

    def resize(self, width: int, height: int) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.command("Emulation.setDeviceMetricsOverride", metrics)

    def dark(self) -> None:
        features = [{"name": "prefers-color-scheme", "value": "dark"}]
        self.command("Emulation.setEmulatedMedia", {"features": features})

    def command(self, name: str, parameters: dict[str, Any]) -> Any:
        return self.post("/goog/cdp/execute", {"cmd": name, "params": parameters})

    def drag(self, start: tuple[int, int], end: tuple[int, int]) -> None:
        """Press, move and release the mouse, in pixels of the view."""
        moves = [
            {"type": "pointerMove", "duration": 0, "x": start[0], "y": start[1]},
            {"type": "pointerDown", "button": 0},
            {"type": "pointerMove", "duration": 100, "x": (start[0] + end[0]) // 2, "y": end[1]},
            {"type": "pointerMove", "duration": 100, "x": end[0], "y": end[1]},
            {"type": "pointerUp", "button": 0},
        ]
        pointer = {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": moves}
        self.post("/actions", {"actions": [pointer]})

    def close(self) -> None:
        request = urllib.request.Request(self.base, method="DELETE")
        urllib.request.urlopen(request, timeout=30).read()


@contextmanager
def browser() -> Iterator[Browser]:
    """Start a driver on a free port and open a window; end both on exit."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert DRIVER is not None
    process = subprocess.Popen([DRIVER, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 20
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/status", timeout=5).read()
                break
            except OSError:
                assert time.monotonic() < end, "chromedriver did not start"
                time.sleep(0.1)
        window = Browser(port)
        try:
            yield window
        finally:
            window.close()
    finally:
        process.terminate()
        process.wait(20)


def opened() -> Iterator[Browser]:
    """A window for the tests of a module, to be made a fixture; skips them where there is no browser."""
    if not available():
        pytest.skip(MISSING)
    with browser() as window:
        yield window
