"""Files that would hang, fill the memory, read other files or end in a traceback: one sentence each, in seconds."""

import io
import os
import socket
import struct
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest

from probsysid._internal import memory
from probsysid._internal.errors import InputError
from probsysid.data.readers import read_table
from tests.damage import damaged_copies

SECONDS = 10.0
"""In which every one has to be refused, also on a busy machine."""


def refusal(path: Path, **options: object) -> str:
    began = time.monotonic()
    with pytest.raises(InputError) as caught:
        read_table(path, **options)
    assert time.monotonic() - began < SECONDS
    assert str(caught.value).startswith(str(path)) and "\n" not in str(caught.value)
    return str(caught.value)


def test_a_million_columns(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    path.write_text(",".join(f"c{i}" for i in range(1_000_000)) + "\n" + ",".join(["1"] * 1_000_000) + "\n")
    assert "1000000 cells; at most 10000" in refusal(path)


@pytest.mark.parametrize(
    "encoding", ["undefined", "punycode", "idna", "unicode_escape", "rot13", "hex", "\0", "nonsense"]
)
def test_encodings_that_no_file_has(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text("t,x\n0,1\n")
    assert f"the encoding {encoding!r} is unknown; try" in refusal(path, encoding=encoding)


@pytest.mark.parametrize("name", ["a.csv", "a.mat", "a.npz", "a.parquet"])
def test_pipes_and_sockets(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    os.mkfifo(path)
    assert "is not a file that is stored" in refusal(path)
    path.unlink()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        assert "is not a file that is stored" in refusal(path)


def test_more_than_the_memory_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_memory", lambda: 1000)
    (tmp_path / "a.csv").write_text("t,x\n" + "0,1\n" * 100)
    np.savez(tmp_path / "a.npz", x=np.zeros(1000))
    for name in ("a.csv", "a.npz"):
        assert "GB of memory; 1e-06 GB are free" in refusal(tmp_path / name)


# MATLAB 7.3, which is HDF5


def loop(file: h5py.File) -> None:
    file["itself"] = file["/"]


def deep_loop(file: h5py.File) -> None:
    group = file.create_group("a/b")
    group["a"] = file["a"]


def soft(file: h5py.File) -> None:
    file["self"] = h5py.SoftLink("/self")


def dangling(file: h5py.File) -> None:
    file["x"] = h5py.SoftLink("/absent")


def elsewhere(file: h5py.File) -> None:
    file["x"] = h5py.ExternalLink("/etc/passwd", "/x")


def external_storage(file: h5py.File) -> None:
    file.create_dataset("x", (8,), dtype="u1", external=[("/etc/passwd", 0, 8)])


def virtual(file: h5py.File) -> None:
    layout = h5py.VirtualLayout(shape=(4,), dtype="f8")
    layout[:] = h5py.VirtualSource("/etc/hostname", "x", shape=(4,))
    file.create_virtual_dataset("x", layout)


def huge(file: h5py.File) -> None:
    file.create_dataset("x", (2**40, 2**10), dtype="f8", chunks=(2**10, 1))


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (loop, "itself refers to a structure that holds it"),
        (deep_loop, "a.b.a refers to a structure that holds it"),
        (soft, "self is a link"),
        (dangling, "x is a link"),
        (elsewhere, "x is a link"),
        (external_storage, "x is stored in another file"),
        (virtual, "x is stored in another file"),
        (huge, "does not fit into memory"),
    ],
)
def test_hdf5_that_matlab_never_writes(tmp_path: Path, make: Callable[[h5py.File], None], reason: str) -> None:
    path = tmp_path / "a.mat"
    with h5py.File(path, "w") as file:
        file["y"] = np.arange(3.0)
        make(file)
    assert reason in refusal(path)


@pytest.mark.parametrize("name", ["two\nlines", "", "é\u2028", "a/b"])
def test_names_of_any_kind(tmp_path: Path, name: str) -> None:
    """As damaged files have."""
    with h5py.File(tmp_path / "a.mat", "w") as file:
        file["y"] = np.arange(3.0)
        if name:
            file[name] = np.arange(3.0)
    assert "y" in read_table(tmp_path / "a.mat").names


def test_a_file_that_takes_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As some damaged files do to HDF5."""
    worker = tmp_path / "worker.py"
    worker.write_text("import time; time.sleep(60)")
    monkeypatch.setattr("probsysid.data.readers.mat_worker.__file__", str(worker))
    monkeypatch.setattr("probsysid.data.readers.matlab.PATIENCE", 0.5)
    (tmp_path / "a.mat").write_bytes(b"x")
    assert "did not end within" in refusal(tmp_path / "a.mat")
    worker.write_text("import os; os.kill(os.getpid(), 11)")
    assert "reading it ended in a crash" in refusal(tmp_path / "a.mat")


# NumPy archives


def member(header: str, body: bytes = b"") -> bytes:
    """An array's file with any header."""
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + body


def archive(content: bytes, compression: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as file:
        file.writestr("x.npy", content)
    return buffer.getvalue()


def headers(shape: str, dtype: str = "'<f8'") -> bytes:
    return archive(member(f"{{'descr': {dtype}, 'fortran_order': False, 'shape': {shape}}}", bytes(64)))


def encrypted() -> bytes:
    content = bytearray(headers("(8,)"))
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(signature) + offset] |= 1
    return bytes(content)


def unknown_compression() -> bytes:
    content = bytearray(headers("(8,)"))
    for signature, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        content[content.index(signature) + offset] = 97
    return bytes(content)


def broken_stream() -> bytes:
    content = bytearray(archive(member("{'descr': '<f8', 'fortran_order': False, 'shape': (800,)}", bytes(6400)), 8))
    content[60:75] = b"\xff" * 15
    return bytes(content)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (headers("(10**12,)".replace("10**12", str(10**12))), "claims to have the shape (1000000000000,)"),
        (headers(f"({2**62}, {2**62}, 4)"), "claims to have the shape"),
        (headers("(-1,)"), "claims to have the shape"),
        (headers("(8,)", "'O'"), "holds Python objects"),
        (headers("(8,)", "'nonsense'"), ""),
        (headers("8"), ""),
        (headers("(8,)" + " " * 20_000), ""),
        (encrypted(), "is encrypted"),
        (unknown_compression(), "is compressed in a way that NumPy does not use"),
        (broken_stream(), ""),
        (archive(b""), ""),
        (b"PK\x03\x04", ""),
    ],
)
def test_archives_that_numpy_never_writes(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "a.npz"
    path.write_bytes(content)
    found = refusal(path)
    assert "is not an archive of plain arrays, or is damaged" in found and reason in found


def test_structured_arrays_are_left_out(tmp_path: Path) -> None:
    structured = np.zeros(3, dtype=[("a", float), ("b", "U3")])
    np.savez(tmp_path / "a.npz", x=np.arange(3.0), pairs=structured, raw=np.zeros(2, "V8"))
    assert read_table(tmp_path / "a.npz").names == ("x",)


# Damage


def whole_files(folder: Path) -> Iterator[Path]:
    import scipy.io

    columns = {"t": 0.1 * np.arange(50), "x": np.sin(np.arange(50.0))}
    np.savez_compressed(folder / "a.npz", **columns)
    yield folder / "a.npz"
    scipy.io.savemat(folder / "five.mat", columns, do_compression=True)
    yield folder / "five.mat"
    with h5py.File(folder / "seven.mat", "w") as file:
        for name, values in columns.items():
            file.create_dataset(name, data=values, compression="gzip", fletcher32=True)
    yield folder / "seven.mat"


def test_damaged_archives_are_refused_or_read_as_they_were(tmp_path: Path) -> None:
    path = next(whole_files(tmp_path))
    whole = path.read_bytes()
    for what, content in damaged_copies(whole, 200):
        path.write_bytes(content)
        try:
            found = read_table(path)
        except InputError as error:
            assert str(error).startswith(str(path)) and "\n" not in str(error), what
        else:  # the damage is in parts that do not matter, or took away a name
            assert all(np.array_equal(found.numbers(n), np.sin(np.arange(50.0))) for n in found.names if n == "x"), what
