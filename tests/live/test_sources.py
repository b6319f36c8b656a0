"""Every source yields the samples that were sent."""

import os
import socket
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest

import probsysid as ps
from probsysid.data.readers import Channel
from probsysid.live.alignment import Alignment
from probsysid.live.channels import Channels
from probsysid.live.intake import Intake
from probsysid.live.messages import Malformed, Message, packed
from probsysid.live.network import TcpLines, UdpLines
from probsysid.live.open_source import open_source
from probsysid.live.sources import GrowingFile, Pipe, Replay
from tests.live import lag

CHANNELS = Channels({"u": Channel("u")}, {"level": Channel("y")}, "t")


def intake() -> Intake:
    return Intake(CHANNELS, Alignment(lag.DT, 1, "restart", 8, (False,)), None)


def collect(source: Iterable, count: int, seconds: float = 20.0) -> tuple[np.ndarray, Intake]:
    """The rows of a source until there are so many."""
    found, end = intake(), time.monotonic() + seconds
    for item in source:
        found.push(item)
        if found.saved >= count or time.monotonic() > end:
            break
    rows = []
    while (arrived := found.take(10**6, 0)) is not None:
        rows.append(np.column_stack([arrived.item.time, arrived.item.values]))  # type: ignore[union-attr]
    return np.concatenate(rows), found


def in_background(work: Callable[[], None]) -> None:
    threading.Thread(target=work, daemon=True).start()


def test_a_file_that_grows_line_by_line_and_in_halves(tmp_path: Path) -> None:
    path, rows = tmp_path / "rig.csv", lag.measure(40)
    text = "t,u,y\n" + "".join(f"{t!r},{u!r},{y!r}\n" for t, u, y in rows.tolist())

    def write() -> None:
        with open(path, "w") as file:
            for first in range(0, len(text), 37):  # cuts lines and numbers
                file.write(text[first : first + 37])
                file.flush()
                time.sleep(0.001)

    in_background(write)
    found, _ = collect(GrowingFile(path, CHANNELS), 40)
    np.testing.assert_array_equal(found, rows)


def test_lines_that_are_broken_are_counted_and_the_others_kept(tmp_path: Path) -> None:
    path, rows = tmp_path / "rig.csv", lag.measure(10)
    lines = [f"{t!r},{u!r},{y!r}\n" for t, u, y in rows.tolist()]
    path.write_text("t,u,y\n" + "".join(lines[:5]) + "what?\n1,2\n\n" + "".join(lines[5:]))
    found, taken = collect(GrowingFile(path, CHANNELS), 10)
    np.testing.assert_array_equal(found, rows)
    assert taken.counts.malformed == 2


def test_a_header_without_a_column_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "rig.csv"
    path.write_text("t,volts,y\n1,2,3\n")
    with pytest.raises(ps.InputError, match="no column 'u'; its first line is: t,volts,y"):
        collect(GrowingFile(path, CHANNELS), 1)


def test_a_file_that_shrinks_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "rig.csv"
    lag.write_csv(path, lag.measure(10))
    source = iter(GrowingFile(path, CHANNELS))
    assert isinstance(next(source), Message)
    path.write_text("t,u,y\n")
    with pytest.raises(ps.InputError, match="shorter"):
        next(source), next(source)


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_a_pipe_ends_with_its_writer(kind: str) -> None:
    rows = lag.measure(30)
    read, write = os.pipe()
    lines = ["t,u,y"] if kind == "csv" else []
    for t, u, y in rows.tolist():
        lines.append(f"{t!r},{u!r},{y!r}" if kind == "csv" else f'{{"t": {t!r}, "u": {u!r}, "y": {y!r}}}')
    with os.fdopen(read) as end:
        os.write(write, ("\n".join(lines)).encode())  # the last line has no end
        os.close(write)
        found, _ = collect(Pipe(CHANNELS, end), 10**6)
    np.testing.assert_array_equal(found, rows)


def test_udp_lines_and_packed_blocks() -> None:
    rows, source = lag.measure(20), UdpLines("127.0.0.1", 0, CHANNELS)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for t, u, y in rows[:10].tolist():
            sender.sendto(f"{t!r},{u!r},{y!r}".encode(), ("127.0.0.1", source.port))
        sender.sendto(b"\x00nonsense", ("127.0.0.1", source.port))
        sender.sendto(packed(rows[10:]), ("127.0.0.1", source.port))
    found, taken = collect(source, 20)
    source.close()
    np.testing.assert_array_equal(found, rows)
    assert taken.counts.malformed == 1


def test_tcp_acknowledges_what_is_saved_and_takes_a_sender_back() -> None:
    rows, source = lag.measure(20), TcpLines("127.0.0.1", 0, CHANNELS)
    answers: list[bytes] = []

    def send() -> None:
        for part in (rows[:12], rows[8:]):  # the second connection repeats four samples
            with socket.create_connection(("127.0.0.1", source.port)) as sender:
                sender.sendall("".join(f"{t!r},{u!r},{y!r}\n" for t, u, y in part.tolist()).encode())
                with sender.makefile("rb") as file:
                    while not answers or answers[-1] != f"ok {round(part[-1, 0] / lag.DT) + 1}\n".encode():
                        answers.append(file.readline())

    in_background(send)
    found, taken = collect(source, 20)
    np.testing.assert_array_equal(found, rows)
    assert taken.counts.duplicate == 4
    end = time.monotonic() + 10
    while answers[-1:] != [b"ok 20\n"] and time.monotonic() < end:
        time.sleep(0.01)
    source.close()
    assert b"ok 12\n" in answers and answers[-1] == b"ok 20\n"


def test_an_acknowledgement_waits_until_all_samples_of_its_message_are_saved() -> None:
    found, said = intake(), []
    rows = lag.measure(6)

    def message(k: int) -> Message:
        return Message({"u": rows[k, 1], "y": rows[k, 2]}, rows[k, 0], lambda saved, k=k: said.append((k, saved)))

    for k in (0, 2, 3):
        found.push(message(k))
    assert said == [(0, 1)]  # 2 and 3 wait for 1
    found.push(message(1))
    assert said == [(0, 1), (2, 4), (3, 4), (1, 4)]
    found.push(Malformed("broken", lambda saved: said.append((-1, saved))))
    assert said[-1] == (-1, 4)  # or a broker would deliver it for ever


def test_a_full_queue_holds_the_source_back_and_says_for_how_long() -> None:
    channels = Channels({"u": Channel("u")}, {"level": Channel("y")}, "t")
    taken = Intake(channels, Alignment(lag.DT, 1, "restart", 8, (False,)), None, most=10)
    rows = lag.measure(40)

    def push() -> None:
        for t, u, y in rows.tolist():
            taken.push(Message({"u": u, "y": y}, t))

    in_background(push)
    time.sleep(0.3)
    assert taken.waiting <= 11
    count = 0
    while count < 40:
        arrived = taken.take(5, 5.0)
        assert arrived is not None
        count += len(arrived.item.time)  # type: ignore[union-attr]
    assert taken.blocked > 0.1


def test_a_replay_keeps_its_speed(tmp_path: Path) -> None:
    path, rows = tmp_path / "lag.csv", lag.measure(10)
    lag.write_csv(path, rows)
    began = time.monotonic()
    found, _ = collect(Replay(path, CHANNELS, lag.DT, speed=5.0), 10)
    assert time.monotonic() - began >= 10 * lag.DT / 5.0 - 0.06  # one block of 50 ms less
    np.testing.assert_array_equal(found, rows)


def test_a_source_of_ones_own_is_a_generator() -> None:
    rows = lag.measure(5)
    found, _ = collect(((t, {"u": u, "y": y}) for t, u, y in rows.tolist()), 5)
    np.testing.assert_array_equal(found, rows)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("ftp://host/file", "known are FILE.csv"),
        ("udp://", "has no port"),
        ("tcp://host:what", "has no port"),
        ("tcp://192.0.2.1:9000", "nothing can be received at"),
        ("mqtt://host", "has no topic"),
        ("mqtt://user:secret@host/topic", "PROBSYSID_MQTT_USER"),
        ("replay:nothing.csv", "there is no file"),
    ],
)
def test_a_wrong_source_is_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ps.InputError, match=sentence):
        open_source(text, CHANNELS, 0.1, {}, 1.0)
