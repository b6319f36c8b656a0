"""MQTT against a real broker on loopback: nothing is lost, whatever happens to the broker."""

import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import probsysid as ps
from probsysid.data.readers import Channel
from probsysid.live.channels import Channels
from probsysid.live.messages import packed
from probsysid.live.mqtt import Address, MqttResults, MqttSource
from probsysid.live.session import Session
from tests.live import lag

MOSQUITTO = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")

broker_needed = pytest.mark.skipif(
    MOSQUITTO is None, reason="mosquitto is not installed (Debian: apt-get install mosquitto)"
)

CHANNELS = Channels({"u": Channel("u")}, {"level": Channel("y")}, "t")


class Broker:
    """A mosquitto that can be killed and started again on the same port."""

    def __init__(self, folder: Path, lines: str = "allow_anonymous true\n"):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._config = folder / "mosquitto.conf"
        self._config.write_text(f"listener {self.port} 127.0.0.1\n{lines}max_queued_messages 100000\nuser root\n")
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen([str(MOSQUITTO), "-c", str(self._config)], stderr=subprocess.DEVNULL)
        end = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                assert time.monotonic() < end, "mosquitto did not start"
                time.sleep(0.05)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(10)


@contextmanager
def broker(folder: Path, **options: Any) -> Iterator[Broker]:
    found = Broker(folder, **options)
    try:
        yield found
    finally:
        found.kill()


class Sender:
    """Sends blocks, and again what is not acknowledged by the results: what a careful logger does."""

    def __init__(self, port: int, topic: str, rows: np.ndarray, block: int, seed: int = 0):
        from paho.mqtt import client as paho
        from paho.mqtt.enums import CallbackAPIVersion

        self.rows, self.block = rows, block
        self._random = np.random.default_rng(seed)
        self._topic = topic
        self._client = paho.Client(CallbackAPIVersion.VERSION2)
        self._client.reconnect_delay_set(1, 1)
        self._client.connect("127.0.0.1", port, keepalive=5)
        self._client.loop_start()
        wait_for(lambda: self.connected, lambda: "the sender is not connected")

    @property
    def connected(self) -> bool:
        return bool(self._client.is_connected())

    def send(self, first: int, last: int, reorder: bool = True) -> None:
        """Samples first..last-1 in blocks, neighbours exchanged and some twice."""
        starts = list(range(first, last, self.block))
        if reorder:
            for k in range(1, len(starts) - 1, 4):
                starts[k], starts[k + 1] = starts[k + 1], starts[k]
            starts += starts[::7]
            starts = [starts[0], *starts[1:]]
        for k, start in enumerate(starts):
            part = self.rows[start : min(start + self.block, last)]
            self._client.publish(self._topic, packed(part), qos=1)
            if k % 200 == 199:
                time.sleep(0.02)

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


def session(port: int, folder: Path, **options: Any) -> Session:
    arguments = {"model": lag.model, "dt": lag.DT, **lag.OPTIONS}
    patience = {"patience": 10.0}
    return Session(
        {"lag": arguments}, CHANNELS, ps.LiveOptions(**patience, false_alarms=None), folder=folder, **options
    )


def wait_for(condition: Any, what: str, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"after {seconds:g} s: {what()}"
        time.sleep(0.05)


def stream(folder: Path, samples: int, kills: int, seconds: float = 60.0) -> None:
    """Send all samples through a broker that is killed and restarted, and compare with the record at once."""
    rows = lag.measure(samples)
    block = 25
    with broker(folder) as found:
        url = f"mqtt://127.0.0.1:{found.port}/rig/samples"
        live = session(found.port, folder / "run")
        source = MqttSource(url, CHANNELS)
        live.start(source)
        wait_for(lambda: "connected" in source.state, lambda: source.state)
        sender = Sender(found.port, "rig/samples", rows, block)
        saved = 0
        parts = np.linspace(0, samples, kills + 2).astype(int) // block * block
        parts[-1] = samples
        for k, (first, last) in enumerate(pairwise(parts)):
            sender.send(int(first), int(last))
            end = time.monotonic() + seconds
            while live.intake.saved < last:  # the sender's watch over what is acknowledged
                assert time.monotonic() < end, (live.intake.saved, last, live.intake.counts, source.state)
                if live.intake.saved == saved:
                    sender.send(saved // block * block, int(last), reorder=False)
                saved = live.intake.saved
                time.sleep(0.5)
            if k < kills:  # what a broker without a disk holds at that moment is lost, whoever receives it
                reconnects = source.reconnects
                found.kill()
                found.start()
                wait_for(lambda n=reconnects: source.reconnects > n, lambda: source.state, seconds)
                wait_for(lambda: "connected" in source.state and sender.connected, lambda: source.state, seconds)
        assert live.engine.wait(10 * seconds)
        posterior, counts = live.engine.tracks[0].posterior(), live.intake.counts
        live.end(finish=True)
        sender.close()
    assert counts.accepted == samples
    assert counts.restarts == counts.gaps == counts.malformed == 0
    assert counts.duplicate > 0
    lag.assert_identical(posterior, lag.stream_posterior(rows))


@broker_needed
def test_repeated_and_exchanged_blocks_through_a_broker_that_is_killed(tmp_path: Path) -> None:
    stream(tmp_path, 1000, kills=1)


@broker_needed
@pytest.mark.long
def test_a_hundred_thousand_samples_through_a_broker_that_is_killed_thrice(tmp_path: Path) -> None:
    stream(tmp_path, 100_000, kills=3, seconds=300.0)


@broker_needed
def test_what_is_not_saved_is_delivered_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = lag.measure(50)
    with broker(tmp_path) as found:
        url = f"mqtt://127.0.0.1:{found.port}/rig"
        first = MqttSource(url, CHANNELS)
        wait_for(lambda: "connected" in first.state, lambda: first.state)
        time.sleep(0.3)
        sender = Sender(found.port, "rig", rows, 10)
        sender.send(0, 50, reorder=False)
        items = iter(first)
        seen = [item for item in (next(items) for _ in range(20)) if item is not None]
        while len(seen) < 5:
            item = next(items)
            seen += [] if item is None else [item]
        for item in seen[:2]:  # two blocks are saved, then the process is gone
            item.acknowledge(0)  # type: ignore[union-attr, misc]
        time.sleep(0.5)
        first.close()
        again = MqttSource(url, CHANNELS)
        got: list[np.ndarray] = []
        end = time.monotonic() + 20
        for item in again:
            if item is not None:
                got.append(item.time)  # type: ignore[union-attr]
            if len(got) == 3 or time.monotonic() > end:
                break
        again.close()
        sender.close()
    np.testing.assert_array_equal(np.concatenate(got), rows[20:, 0])


@broker_needed
def test_results_are_published_and_kept_for_who_comes_later(tmp_path: Path) -> None:
    from paho.mqtt import client as paho
    from paho.mqtt.enums import CallbackAPIVersion

    with broker(tmp_path) as found:
        results = MqttResults(f"mqtt://127.0.0.1:{found.port}/rig/posterior")
        wait_for(lambda: results._client.is_connected(), lambda: "not connected")
        results.write('{"a": 1}')
        time.sleep(0.3)
        arrived, got = threading.Event(), []
        listener = paho.Client(CallbackAPIVersion.VERSION2)

        def on_message(client: Any, data: Any, message: Any) -> None:
            got.append(message.payload)
            arrived.set()

        listener.on_message = on_message
        listener.connect("127.0.0.1", found.port)
        listener.subscribe("rig/posterior")
        listener.loop_start()
        assert arrived.wait(20)
        listener.disconnect()
        listener.loop_stop()
        results.close()
    assert got == [b'{"a": 1}']


@broker_needed
def test_a_broker_that_refuses_says_so(tmp_path: Path) -> None:
    with broker(tmp_path, lines="allow_anonymous false\n") as found:
        source = MqttSource(f"mqtt://127.0.0.1:{found.port}/rig", CHANNELS)
        wait_for(lambda: "refuses" in source.state or "lost" in source.state, lambda: source.state)
        source.close()
    assert "Not authorized" in source.state or "not authorised" in source.state.lower()


def test_addresses() -> None:
    assert Address.of("mqtt://rig/a/b") == Address("rig", 1883, "a/b", False)
    assert Address.of("mqtts://rig:99/a") == Address("rig", 99, "a", True)
