"""A local web server that supports ranges or not, breaks connections, or sends other content."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Behaviour:
    """Settings of the server.

    `dies` holds, per request, the number of bytes after which the connection breaks; further requests complete.
    """

    content: bytes
    ranges: bool = True
    length: bool = True
    dies: list[int] = field(default_factory=list)
    asked: list[str | None] = field(default_factory=list)
    """The ranges requested so far."""
    address: str = ""


@contextmanager
def serving(content: bytes) -> Iterator[Behaviour]:
    """A server on this machine that stops with the context."""
    behaviour = Behaviour(content)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            behaviour.asked.append(wanted)
            content, first = behaviour.content, 0
            if not content:
                self.send_error(404)
                return
            if wanted and behaviour.ranges:
                first = int(wanted.removeprefix("bytes=").rstrip("-"))
                if first >= len(content):
                    self.send_error(416)
                    return
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {first}-{len(content) - 1}/{len(content)}")
            else:
                self.send_response(200)
            if behaviour.length:
                self.send_header("Content-Length", str(len(content) - first))
            self.end_headers()
            last = first + behaviour.dies.pop(0) if behaviour.dies else None
            self.wfile.write(content[first:last])

        def log_message(self, format: str, *args: object) -> None:
            pass

    service = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=service.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    behaviour.address = f"http://127.0.0.1:{service.server_port}/archive"
    try:
        yield behaviour
    finally:
        service.shutdown()
        thread.join()
        service.server_close()
