"""Lines over UDP and TCP: `t,u,y` in the order time, inputs, outputs, or JSON objects; blocks may be packed over UDP.

On loopback by default.  Over TCP lines are acknowledged with `ok N`, N samples saved so far, when they are on the disk,
those that came together once: a sender that keeps what is not acknowledged loses nothing.
"""

import selectors
import socket
from collections.abc import Iterator
from contextlib import suppress

from probsysid._internal.errors import InputError
from probsysid.live.channels import Channels
from probsysid.live.messages import IDLE, LONGEST, Item, Malformed, decode

BUFFER = 8 * 2**20
"""Bytes that the system is asked to keep while nobody reads: UDP drops what does not fit."""


class UdpLines:
    """Datagrams with one or several samples each."""

    def __init__(self, host: str, port: int, channels: Channels):
        self._channels = channels
        self._socket = _bound(socket.SOCK_DGRAM, host, port)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
        self._socket.settimeout(IDLE)
        self.port: int = self._socket.getsockname()[1]
        self.state = f"listens at udp://{host}:{self.port}"

    def __iter__(self) -> Iterator[Item]:
        while True:
            try:
                payload = self._socket.recv(65536)
            except TimeoutError:
                yield None
                continue
            except OSError:  # closed
                return
            yield from decode(payload, self._channels.columns, self._channels.time)

    def close(self) -> None:
        self._socket.close()


class TcpLines:
    """Senders connect, one after the other or several at once, and may come back."""

    def __init__(self, host: str, port: int, channels: Channels):
        self._channels = channels
        self._socket = _bound(socket.SOCK_STREAM, host, port)
        self._socket.listen()
        self._socket.setblocking(False)
        self.port: int = self._socket.getsockname()[1]
        self._address = f"tcp://{host}:{self.port}"
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._socket, selectors.EVENT_READ)
        self._left: dict[socket.socket, bytes] = {}
        self.state = f"listens at {self._address}"

    def __iter__(self) -> Iterator[Item]:
        while True:
            try:
                ready = self._selector.select(IDLE)
            except (OSError, ValueError):  # closed
                return
            if not ready:
                yield None
            for key, _ in ready:
                if key.fileobj is self._socket:
                    self._welcome()
                else:
                    assert isinstance(key.fileobj, socket.socket)
                    yield from self._receive(key.fileobj)

    def close(self) -> None:
        self._selector.close()
        for sender in (self._socket, *self._left):
            sender.close()

    def _welcome(self) -> None:
        sender, _ = self._socket.accept()
        sender.settimeout(5)
        self._selector.register(sender, selectors.EVENT_READ)
        self._left[sender] = b""
        self._say()

    def _receive(self, sender: socket.socket) -> Iterator[Item]:
        try:
            fresh = sender.recv(65536)
        except OSError:
            fresh = b""
        *lines, left = (self._left[sender] + fresh).split(b"\n")
        self._left[sender] = left
        objects = any(line.lstrip()[:1] in (b"{", b"[") for line in lines)
        for part in lines if objects else [b"\n".join(lines)]:
            for item in decode(part, self._channels.columns, self._channels.time):
                yield item._replace(acknowledge=lambda saved: _answer(sender, saved))
        if len(left) > LONGEST:
            yield Malformed(f"a line of more than {LONGEST} bytes")
        if not fresh or len(left) > LONGEST:
            self._selector.unregister(sender)
            del self._left[sender]
            sender.close()
            self._say()

    def _say(self) -> None:
        count = len(self._left)
        self.state = f"{self._address}: {count or 'no'} sender{'' if count == 1 else 's'} connected"


def _answer(sender: socket.socket, saved: int) -> None:
    with suppress(OSError):  # it is gone, and will send again what it does not know to be saved
        sender.sendall(f"ok {saved}\n".encode())


def _bound(kind: int, host: str, port: int) -> socket.socket:
    found = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, kind)
    try:
        if kind == socket.SOCK_STREAM:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
    except OSError as error:
        found.close()
        raise InputError(
            f"nothing can be received at {host}:{port}: {(error.strerror or str(error)).lower()}."
        ) from None
    return found
