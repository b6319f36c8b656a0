"""Downloads through pooch that resume after an interruption.

pooch streams a download into a temporary file, checks its hash, and moves it into place only when it is complete; but
it deletes the temporary file when the connection breaks, and the next attempt starts at byte zero.  Therefore
`ResumingDownloader`, a pooch downloader that keeps the received bytes in a file of its own and requests the missing
ones with an HTTP Range header.
"""

import http.client
import logging
import os
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ATTEMPTS = 3
"""Consecutive attempts without a new byte after which the download is abandoned."""

TIMEOUT = 30.0
"""Seconds without data after which a connection counts as broken."""

CHUNK = 1 << 16
"""Bytes per read."""


class Incomplete(OSError):
    """The connection closed before the end of the file."""


def transfer(address: str, path: Path, known_hash: str | None = None) -> Path:
    """Download an address to a file through pooch's cache; a file that is present and matches its hash is kept.

    Bytes of an interrupted download stay in NAME.partial, where the next call resumes.
    """
    import pooch  # with its own imports 0.13 s, which no other command needs

    downloader = ResumingDownloader(path.with_name(f"{path.name}.partial"))
    with without_log():
        return Path(pooch.retrieve(address, known_hash, path.name, path.parent, downloader=downloader))


@contextmanager
def without_log() -> Iterator[None]:
    """Silence pooch's log of addresses and hashes: our commands report what they do themselves."""
    import pooch  # late, as in `transfer`

    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


@dataclass(frozen=True)
class ResumingDownloader:
    """A pooch downloader (a callable of address, output file and registry) that resumes interrupted downloads.

    Args:
        partial: where received bytes are kept until the file is complete; on the file system of the output file.
    """

    partial: Path

    def __call__(self, url: str, output_file: str | os.PathLike[str], pooch: object) -> None:
        received, idle = _size(self.partial), 0
        while True:
            try:
                self._request_rest(url)
                break
            except (OSError, http.client.HTTPException) as error:
                idle = 0 if _size(self.partial) > received else idle + 1
                received = max(received, _size(self.partial))
                if idle == ATTEMPTS or _is_final(error):
                    if isinstance(error, OSError):
                        raise
                    raise Incomplete(f"the server broke off: {error!r}") from None
        self.partial.replace(output_file)

    def _request_rest(self, url: str) -> None:
        """One connection: append the missing bytes, or start over if the server does not support ranges."""
        received = _size(self.partial)
        request = urllib.request.Request(url, headers={"Range": f"bytes={received}-"} if received else {})
        try:
            reply = urllib.request.urlopen(request, timeout=TIMEOUT)
        except urllib.error.HTTPError as error:
            if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                self.partial.unlink()  # at least as long as the file: from another version; the next attempt restarts
            raise
        with reply:
            first, total = _extent(reply, received)
            with self.partial.open("ab" if first else "wb") as file:
                while chunk := reply.read(CHUNK):
                    file.write(chunk)
        if total is not None and _size(self.partial) != total:
            raise Incomplete(f"{_size(self.partial)} of {total} bytes arrived")


def _extent(reply: http.client.HTTPResponse, received: int) -> tuple[int, int | None]:
    """Offset of the reply's first byte, and the size of the whole file if the server states it."""
    length = reply.headers.get("Content-Length")
    if reply.status != http.HTTPStatus.PARTIAL_CONTENT:
        return 0, None if length is None else int(length)
    found = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", reply.headers.get("Content-Range", ""))
    if found is None or int(found[1]) != received:
        raise Incomplete(f"asked for bytes from {received}, the server sent {reply.headers.get('Content-Range')!r}")
    return received, None if found[2] == "*" else int(found[2])


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _is_final(error: Exception) -> bool:
    """Whether another attempt would fail in the same way: client errors (4xx) except an unsatisfiable range."""
    code = getattr(error, "code", None)
    return code is not None and 400 <= code < 500 and code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE
