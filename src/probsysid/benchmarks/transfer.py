"""Download one file: what has arrived stays, an interrupted transfer goes on where it stopped.

Bytes go to NAME.partial; the file appears under its name only when all of them are there.  Whether they are the right
ones is for its reader to check, who removes it if they are not.
"""

import http.client
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

ATTEMPTS = 3
"""Tries in a row that bring nothing new, after which the transfer is given up."""

TIMEOUT = 30.0
"""Seconds that a server may be silent."""

PIECE = 1 << 16


class Incomplete(OSError):
    """The connection ended before the file did."""


def transfer(address: str, path: Path) -> Path:
    """Fetch an address into a file, unless the file is there already."""
    if path.is_file():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.partial")
    most, idle = _size(partial), 0
    while True:
        try:
            _go_on(address, partial)
            return partial.replace(path)
        except (OSError, http.client.HTTPException) as error:
            idle = 0 if _size(partial) > most else idle + 1
            most = max(most, _size(partial))
            if idle == ATTEMPTS or _refused(error):
                raise error if isinstance(error, OSError) else Incomplete(f"the server broke off: {error!r}") from None


def _go_on(address: str, partial: Path) -> None:
    """One connection: ask for what is missing, take all from the beginning where the server does not do that."""
    have = _size(partial)
    request = urllib.request.Request(address, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        reply = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            partial.unlink()  # as long as the file, or longer: of another version; the next try begins again
        raise
    with reply:
        first, total = _extent(reply, have)
        with partial.open("ab" if first else "wb") as file:
            for piece in _pieces(reply):
                file.write(piece)
    if total is not None and _size(partial) != total:
        raise Incomplete(f"{_size(partial)} of {total} bytes arrived")


def _extent(reply: http.client.HTTPResponse, have: int) -> tuple[int, int | None]:
    """The first byte that the reply brings, and how many the whole file has, where the server says."""
    length = reply.headers.get("Content-Length")
    if reply.status != http.HTTPStatus.PARTIAL_CONTENT:
        return 0, None if length is None else int(length)
    found = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", reply.headers.get("Content-Range", ""))
    if found is None or int(found[1]) != have:
        raise Incomplete(f"asked for bytes from {have}, the server sent {reply.headers.get('Content-Range')!r}")
    return have, None if found[2] == "*" else int(found[2])


def _pieces(reply: http.client.HTTPResponse) -> Iterator[bytes]:
    while piece := reply.read(PIECE):
        yield piece


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _refused(error: Exception) -> bool:
    """Whether another try would end the same."""
    code = getattr(error, "code", None)
    return code is not None and 400 <= code < 500 and code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE
