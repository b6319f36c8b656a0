"""Payloads are read, or refused with a reason."""

import struct

import numpy as np
import pytest

from probsysid.data.readers import Channel
from probsysid.live.channels import Channels
from probsysid.live.messages import LONGEST, PACKED, Malformed, Message, decode, packed

COLUMNS = ("t", "u", "y")
CHANNELS = Channels({"force": Channel("u", scale=2.0)}, {"position": Channel("y", offset=1.0)}, "t", 1e-3)


def read(payload: bytes) -> list[Message | Malformed]:
    return list(decode(payload, COLUMNS, "t"))


def rows_of(payload: bytes) -> tuple[np.ndarray, np.ndarray]:
    (message,) = read(payload)
    assert isinstance(message, Message)
    time, rows = CHANNELS.rows(message)
    assert time is not None
    return time, rows


@pytest.mark.parametrize(
    "payload",
    [
        b"100,1,2\n",
        b'{"t": 100, "u": 1, "y": 2, "other": 5}',
        b'{"t": [100], "u": [1], "y": [2]}',
        packed([[100, 1, 2]]),
    ],
    ids=["line", "object", "arrays", "packed"],
)
def test_all_forms_say_the_same_with_units(payload: bytes) -> None:
    time, rows = rows_of(payload)
    np.testing.assert_allclose(time, [0.1])
    np.testing.assert_array_equal(rows, [[2.0, 3.0]])


def test_a_missing_output_is_not_a_number() -> None:
    for payload in (b"100,1,\n", b'{"t": 100, "u": 1, "y": null}', b'{"t": 100, "u": 1}'):
        assert np.isnan(rows_of(payload)[1][0, 1])


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"1,2\n", "a line with 2 numbers"),
        (b"1,2,abc\n", "could not convert"),
        (b"{", "property name"),
        (b'{"u": 1, "y": 2}', "no 't'"),
        (b"[1, 2]", "neither an object"),
        (b"\xff\xfe\x00", "utf-8"),
        (PACKED, "unpack"),
        (PACKED + struct.pack("<IH", 2, 3) + bytes(8), "48 bytes|58"),
        (PACKED + struct.pack("<IH", 1, 2) + bytes(16), "2 columns"),
        (PACKED + struct.pack("<IH", 2**32 - 1, 3), "bytes"),
        (b"1" * (LONGEST + 1), "at most"),
        (b"[" * 100_000, "recursion|decod|Expecting|maximum"),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_reason(payload: bytes, reason: str) -> None:
    import re

    (found,) = read(payload)
    assert isinstance(found, Malformed)
    assert re.search(reason, found.reason), found.reason


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b'{"t": 1, "y": 2}', "no column 'u'"),
        (b'{"t": [1, 2], "u": [1], "y": [2]}', "different lengths"),
        (b'{"t": 1, "u": "x", "y": 2}', "not a number"),
        (b'{"t": 1, "u": 1e999, "y": 2}', "infinite"),
        (b'{"t": NaN, "u": 1, "y": 2}', "time that is not a number"),
        (b'{"t": 1, "u": {"a": 1}, "y": 2}', "not a number"),
    ],
)
def test_what_cannot_be_used_is_refused_with_a_reason(payload: bytes, reason: str) -> None:
    (message,) = read(payload)
    assert isinstance(message, Message)
    with pytest.raises(ValueError, match=reason):
        CHANNELS.rows(message)
