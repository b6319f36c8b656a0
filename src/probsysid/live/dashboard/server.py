"""The server of the page, in a thread of its own."""

import asyncio
import secrets
import socket
import threading
from typing import Any

from bokeh.application import Application
from bokeh.application.handlers.function import FunctionHandler
from bokeh.document import Document
from bokeh.server.server import Server

from probsysid._internal.errors import InputError
from probsysid.live.dashboard.access import TokenAccess, is_loopback
from probsysid.live.dashboard.page import build
from probsysid.live.engine import Engine

MOST_PAGES = 20
"""Open at once; each has its own copy of what it shows."""

FORGET = 15_000
"""Milliseconds after which a page that has gone is forgotten."""


class Page:
    """A server for one run; `url` is where it is seen."""

    def __init__(self, engine: Engine, title: str, *, address: str = "127.0.0.1", port: int = 0, token: str = ""):
        if not is_loopback(address) and len(token) < 16:
            raise InputError(f"a page at {address} can be reached from other machines; it needs a token.")
        self._engine, self._title, self._token = engine, title, token
        self._pages: set[str] = set()
        listening = _free(address, port)
        self._address, self._port = address, listening.getsockname()[1]
        listening.close()
        self._failure: BaseException | None = None
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: Any = None
        self._thread = threading.Thread(target=self._serve, name="probsysid: page", daemon=True)
        self._thread.start()
        self._ready.wait(30)
        if self._failure is not None:
            raise InputError(f"the page cannot be shown at {address}:{self._port}: {self._failure}.")

    @property
    def url(self) -> str:
        shown = self._address
        if shown in ("0.0.0.0", "::"):
            shown = socket.gethostname()
        host = f"[{shown}]" if ":" in shown else shown
        return f"http://{host}:{self._port}/" + (f"?token={self._token}" if self._token else "")

    @property
    def origins(self) -> list[str]:
        """Hosts whose pages may open a websocket."""
        names = {self._address, "localhost", "127.0.0.1"} if is_loopback(self._address) else {self._address}
        if self._address in ("0.0.0.0", "::"):
            names |= {socket.gethostname(), "localhost", "127.0.0.1", *_own_addresses()}
        return sorted(f"[{name}]:{self._port}" if ":" in name else f"{name}:{self._port}" for name in names)

    def close(self) -> None:
        """Stop serving."""
        if self._loop is not None and self._loop.is_running():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(10)

    def _serve(self) -> None:
        try:
            asyncio.set_event_loop(loop := asyncio.new_event_loop())
            access: dict[str, Any] = {"auth_provider": TokenAccess(self._token)} if self._token else {}
            self._server = Server(
                {"/": Application(FunctionHandler(self._show, trap_exceptions=False))},
                address=self._address,
                port=self._port,
                allow_websocket_origin=self.origins,
                check_unused_sessions_milliseconds=FORGET // 3,
                unused_session_lifetime_milliseconds=FORGET,
                websocket_max_message_size=1_000_000,
                sign_sessions=True,
                secret_key=secrets.token_urlsafe(32).encode(),
                **access,
            )
            self._server.start()
        except BaseException as error:
            self._failure = error
            self._ready.set()
            return
        self._loop = loop
        self._ready.set()
        try:
            loop.run_forever()
        finally:
            self._server.stop()
            loop.run_until_complete(asyncio.sleep(0.05))
            loop.close()

    def _show(self, document: Document) -> None:
        if len(self._pages) >= MOST_PAGES:
            document.title = "probsysid: too many pages are open"
            return
        name = document.session_context.id if document.session_context else ""
        self._pages.add(name)
        document.on_session_destroyed(lambda _: self._pages.discard(name))
        build(document, self._engine, self._title)


def _free(address: str, port: int) -> socket.socket:
    found = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((address, port))
    except OSError as error:
        found.close()
        raise InputError(
            f"the page cannot be shown at {address}:{port}: {(error.strerror or str(error)).lower()}; choose another "
            "--port, or --port 0 for any that is free."
        ) from None
    return found


def _own_addresses() -> set[str]:
    try:
        return {str(item[4][0]) for item in socket.getaddrinfo(socket.gethostname(), None)}
    except OSError:
        return set()
