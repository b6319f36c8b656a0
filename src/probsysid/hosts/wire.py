"""Messages between two hosts, and a watch over the connection.

A message is a head and a body of bytes.  Besides data there are beats, sent every so often so that a host that computes
for an hour is not taken for a dead one, and a farewell that says why a host goes.  Nothing that arrives is ever run:
bodies are numbers and text.
"""

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

HEAD = struct.Struct("!4sB8sQ")
"""Mark, kind, label, length of the body."""

MARK = b"psi1"
DATA, BEAT, FAREWELL = 1, 2, 3

BEATS = 4
"""Beats sent in the time after which a silent host counts as lost."""

PORTION = 1 << 20
"""Bytes read at once."""


class Message(NamedTuple):
    """What arrived."""

    kind: int
    label: bytes
    body: bytes


class Broken(ConnectionError):
    """The connection carries no more messages; says why."""


class Line:
    """A connection to another host.  Messages are handed to `arrived` as they come, from a thread of its own, the end
    of the connection as `Broken`."""

    def __init__(self, connection: socket.socket, timeout: float):
        connection.settimeout(timeout)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection = connection
        self._timeout = timeout
        self._sending = threading.Lock()
        self._closed = threading.Event()
        self._watched = False

    def watch(self, arrived: Callable[[Message | Broken], None]) -> None:
        """Begin to listen, and to show the other host that this one is alive."""
        self._watched = True
        threading.Thread(target=self._listen, args=(arrived,), name="hosts: listen", daemon=True).start()
        threading.Thread(target=self._beat, name="hosts: beat", daemon=True).start()

    def send(self, body: bytes, label: bytes = bytes(8), kind: int = DATA) -> None:
        try:
            with self._sending:
                self._connection.sendall(HEAD.pack(MARK, kind, label, len(body)))
                self._connection.sendall(body)
        except OSError as error:
            raise Broken(_reason(error, self._timeout)) from None

    def receive(self) -> Message:
        """The next message; the connection's end or silence is `Broken`."""
        try:
            mark, kind, label, length = HEAD.unpack(self._read(HEAD.size))
            if mark != MARK:
                raise Broken("what it says is not understood")
            return Message(kind, label, self._read(length))
        except OSError as error:
            raise Broken(_reason(error, self._timeout)) from None

    def close(self) -> None:
        """Say no more.  Whoever listens goes on until the other side has finished, too: a connection closed with
        something unread would take the last message back."""
        self._closed.set()
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_WR)
        if not self._watched:
            self._connection.close()

    def _read(self, count: int) -> bytes:
        parts = []
        while count:
            part = self._connection.recv(min(count, PORTION))
            if not part:
                raise Broken("its connection has ended")
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def _listen(self, arrived: Callable[[Message | Broken], None]) -> None:
        while True:
            try:
                message = self.receive()
            except Broken as end:
                if not self._closed.is_set():
                    arrived(end)
                self._connection.close()
                return
            if message.kind != BEAT:
                arrived(message)

    def _beat(self) -> None:
        while not self._closed.wait(self._timeout / BEATS):
            try:
                self.send(b"", kind=BEAT)
            except Broken:
                return  # the listening thread says so


def _reason(error: OSError, timeout: float) -> str:
    if isinstance(error, Broken):
        return str(error)
    if isinstance(error, TimeoutError):
        return f"nothing has been heard from it for {timeout:g} s"
    return "its connection has ended"
