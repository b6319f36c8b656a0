"""Hosts that work on one problem together: how they meet, and what they tell each other.

Every host runs the same program.  All talk to host 0 only, which passes on what concerns the others.  Every exchange
has a name and a number that all hosts have to agree on: hosts that have come to different decisions notice at once.
"""

import hashlib
import io
import json
import queue
import socket
import time as clock
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NoReturn

import numpy as np

from probsysid._internal.errors import InputError
from probsysid._version import __version__
from probsysid.hosts.errors import HostError
from probsysid.hosts.place import Place
from probsysid.hosts.wire import FAREWELL, Broken, Line, Message

PAUSE = 0.2
"""Seconds between attempts to reach host 0, which may start later than the others."""

INTRODUCTION = 5.0
"""Seconds that a host which has called may take to say who it is."""


class Company:
    """The hosts as one of them sees them."""

    def __init__(self, index: int, lines: dict[int, Line], count: int):
        self.index = index
        self.count = count
        self._lines = lines
        self._arrived: queue.SimpleQueue[tuple[int, Message | Broken]] = queue.SimpleQueue()
        self._exchanges = 0
        self._end: str | None = None
        for other, line in lines.items():
            line.watch(partial(self._note, other))

    @property
    def first(self) -> bool:
        """Whether this is host 0, which writes the files."""
        return self.index == 0

    def gather(self, values: np.ndarray, what: str) -> list[np.ndarray]:
        """Every host's values, in the order of the hosts."""
        label = self._label(what)
        if not self.first:
            self._send(0, _packed([values]), label)
            return _unpacked(self._next(label, what)[1])
        found = {0: values}
        while len(found) < self.count:
            other, body = self._next(label, what)
            found[other] = _unpacked(body)[0]
        everything = [found[host] for host in range(self.count)]
        body = _packed(everything)
        for other in self._lines:
            self._send(other, body, label)
        return everything

    def told(self, values: np.ndarray, what: str) -> np.ndarray:
        """Host 0's values, whatever the others have."""
        label = self._label(what)
        if not self.first:
            return _unpacked(self._next(label, what)[1])[0]
        body = _packed([values])
        for other in self._lines:
            self._send(other, body, label)
        return values

    def leave(self, why: str = "") -> None:
        """Go, and tell the others why; what they still expect of this host will not come."""
        if self._end is None:
            self._part(f"host {self.index} has stopped: {why}" if why else f"host {self.index} is done")

    # One exchange

    def _note(self, other: int, message: Message | Broken) -> None:
        self._arrived.put((other, message))

    def _label(self, what: str) -> bytes:
        if self._end is not None:
            raise HostError(self._end)
        self._exchanges += 1
        return hashlib.blake2b(f"{self._exchanges} {what}".encode(), digest_size=8).digest()

    def _send(self, other: int, body: bytes, label: bytes) -> None:
        try:
            self._lines[other].send(body, label)
        except Broken as error:
            # The other side may have said why it goes before it went: that is the better reason.
            self._lose(self._last_word(other) or f"host {other} is lost: {error}", gone=other)

    def _next(self, label: bytes, what: str) -> tuple[int, bytes]:
        other, message = self._arrived.get()
        if isinstance(message, Broken):
            self._lose(f"host {other} is lost: {message}", gone=other)
        if message.kind == FAREWELL:
            self._lose(message.body.decode(), gone=other)
        if message.label != label:
            self._lose(
                f"host {self.index} and host {other} have come to different decisions (before: {what}). Do all hosts "
                "have the same versions of the libraries?"
            )
        return other, message.body

    def _last_word(self, other: int) -> str | None:
        deadline = clock.monotonic() + 1.0
        while clock.monotonic() < deadline:
            with suppress(queue.Empty):
                who, message = self._arrived.get(timeout=PAUSE)
                if who == other and isinstance(message, Message) and message.kind == FAREWELL:
                    return message.body.decode()
        return None

    def _lose(self, reason: str, gone: int | None = None) -> NoReturn:
        self._part(reason, gone)
        raise HostError(reason)

    def _part(self, reason: str, gone: int | None = None) -> None:
        """Tell everybody who is still there."""
        self._end = reason
        for other, line in self._lines.items():
            if other != gone:
                with suppress(Broken):
                    line.send(reason.encode(), kind=FAREWELL)
            line.close()


def meet(place: Place, timeout: float) -> Company:
    """Wait until all hosts are there."""
    lines = _receive_others(place, timeout) if place.index == 0 else {0: _reach_first(place, timeout)}
    return Company(place.index, lines, place.count)


def _receive_others(place: Place, timeout: float) -> dict[int, Line]:
    lines: dict[int, Line] = {}
    deadline = clock.monotonic() + timeout
    try:
        with _listening(place) as server:
            while len(lines) < place.count - 1:
                server.settimeout(max(deadline - clock.monotonic(), 0.001))
                try:
                    connection, _ = server.accept()
                except TimeoutError:
                    missing = [str(k) for k in range(1, place.count) if k not in lines]
                    raise InputError(
                        f"within {timeout:g} s, {len(lines)} of the {place.count - 1} other hosts have come to "
                        f"{place.address}; missing: host {', '.join(missing)}. Start them, too, or look at the address."
                    ) from None
                _welcome(connection, place, timeout, lines)
        for line in lines.values():
            line.send(b"welcome")
    except (InputError, Broken) as error:
        for line in lines.values():
            with suppress(Broken):
                line.send(str(error).encode(), kind=FAREWELL)
            line.close()
        raise InputError(str(error)) from None
    return lines


def _listening(place: Place) -> socket.socket:
    """On the loopback only if that is what was asked for, else on every interface: the name that others know a machine
    by need not be one that it knows itself."""
    local, both = place.host in ("localhost", "127.0.0.1"), socket.has_dualstack_ipv6()
    try:
        if local or not both:
            return socket.create_server((place.host if local else "", place.port))
        return socket.create_server(("", place.port), family=socket.AF_INET6, dualstack_ipv6=True)
    except OSError as error:
        raise InputError(
            f"host 0 cannot listen at port {place.port} ({error.strerror}); choose another one, the same for all hosts."
        ) from None


def _welcome(connection: socket.socket, place: Place, timeout: float, lines: dict[int, Line]) -> None:
    """Take a host in; a stranger that happens to call is left standing."""
    line = Line(connection, min(timeout, INTRODUCTION))
    try:
        message = line.receive()
        card = json.loads(message.body)
        index, count, version = int(card["index"]), int(card["count"]), str(card["version"])
    except (Broken, ValueError, KeyError, TypeError):
        line.close()
        return
    problem = _mismatch(place, index, count, version, lines)
    if problem:
        with suppress(Broken):
            line.send(problem.encode(), kind=FAREWELL)
        line.close()
        raise InputError(problem)
    lines[index] = Line(connection, timeout)


def _mismatch(place: Place, index: int, count: int, version: str, known: Sequence[int] | dict[int, Any]) -> str:
    if version != __version__:
        return f"host {index} has probsysid {version}, host 0 has {__version__}; all need the same."
    if count != place.count:
        return f"host {index} was told that there are {count} hosts, host 0 that there are {place.count}."
    if index in known or index == 0:
        return f"two hosts have the index {index}; each needs its own, from 0 to {place.count - 1}."
    return ""


def _reach_first(place: Place, timeout: float) -> Line:
    deadline = clock.monotonic() + timeout
    while True:
        try:
            connection = socket.create_connection((place.host, place.port), max(deadline - clock.monotonic(), 0.001))
            break
        except OSError as error:
            if clock.monotonic() + PAUSE > deadline:
                raise InputError(
                    f"host 0 does not answer at {place.address} within {timeout:g} s ({error}); is it running, and is "
                    "the address right?"
                ) from None
            clock.sleep(PAUSE)
    line = Line(connection, max(deadline - clock.monotonic(), 1.0))
    try:
        card = {"index": place.index, "count": place.count, "version": __version__}
        line.send(json.dumps(card).encode())
        answer = line.receive()
    except Broken as error:
        line.close()
        raise InputError(f"host 0 at {place.address} does not let this host in: {error}.") from None
    if answer.kind == FAREWELL:
        line.close()
        raise InputError(answer.body.decode())
    return Line(connection, timeout)


def _packed(arrays: Sequence[np.ndarray]) -> bytes:
    buffer = io.BytesIO()
    for array in arrays:
        np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _unpacked(body: bytes) -> list[np.ndarray]:
    buffer = io.BytesIO(body)
    found = []
    while buffer.tell() < len(body):
        found.append(np.load(buffer, allow_pickle=False))
    return found
