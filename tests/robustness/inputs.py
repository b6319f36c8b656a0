"""Malformed inputs of every kind that is read: the same ones for the same seed, others for another."""

import io
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import scipy.io

from probsysid._internal.errors import InputError
from probsysid._internal.plain_data import UnstorableError
from probsysid.data.readers import read_table
from probsysid.model.equations import parse
from probsysid.odefilter.solver import Solver
from probsysid.posterior.stored_setup import decode_setup, encode_setup
from probsysid.study.priors import parse_prior
from probsysid.study.study_file import read_study
from tests.damage import damaged_copies
from tests.posterior.tiny import tiny_with_model
from tests.study.small import STUDY

CELLS = ["", "nan", "inf", "1e999", "-", "1#2", '"', '""', "1,5", "1.234,5", "0x1p3", "１２", "\u2212", "\x00"]
CELLS += ["9" * 400, "1e-400", "true", "2024-03-01", "NA"]
TOKENS = [
    "x",
    "dx",
    "k3",
    "1e5",
    "1e-999",
    "0",
    "(",
    ")",
    "**",
    "*",
    "/",
    "+",
    "-",
    ",",
    "^",
    ".",
    "sin",
    "where",
    "<",
    "==",
    "__import__",
    "lambda",
    "[0]",
    "'a'",
    "#",
    "if",
    "é",
    "𝒙",
    "1_0",
    "0x",
    "j",
]
TOKENS += ["\n", " ", "\u202e", "9**9**9", ":=", "@"]
PRIOR_TOKENS = [
    "Normal(",
    "LogNormal(",
    "Uniform(",
    "Beta(",
    "0",
    "-1",
    "1e400",
    "log(",
    ")",
    ",",
    "low=",
    "=",
    "**",
    "x",
]


def columns() -> dict[str, np.ndarray]:
    return {"t": 0.1 * np.arange(40), "u": np.ones(40), "y": np.sin(np.arange(40.0))}


def csv_file() -> bytes:
    rows = zip(*columns().values(), strict=True)
    return ("t,u,y\n" + "".join(",".join(f"{v:.5g}" for v in row) + "\n" for row in rows)).encode()


def csv_files(draw: random.Random) -> Iterator[bytes]:
    """Cells, lines and separators changed, and bytes damaged."""
    damaged = damaged_copies(csv_file(), 10**9, draw.randrange(10**6))
    while True:
        lines = csv_file().decode().splitlines()
        for _ in range(draw.randrange(1, 4)):
            k = draw.randrange(len(lines))
            cells = lines[k].split(",")
            cells[draw.randrange(len(cells))] = draw.choice(CELLS)
            lines[k] = draw.choice([",", ",", ";", "\t", " ", ",,"]).join(cells)
        yield "\n".join(lines).encode(draw.choice(["utf-8", "utf-16", "latin-1"]), "replace")
        yield next(damaged)[1]


def damaged(content: bytes) -> Callable[[random.Random], Iterator[bytes]]:
    return lambda draw: (copy for _, copy in damaged_copies(content, 10**9, draw.randrange(10**6)))


def npz_file() -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **columns())
    return buffer.getvalue()


def mat_file(version: int) -> bytes:
    buffer = io.BytesIO()
    if version == 5:
        scipy.io.savemat(buffer, columns(), do_compression=True)
    else:
        with h5py.File(buffer, "w") as file:
            for name, values in columns().items():
                file.create_dataset(name, data=values, compression="gzip", fletcher32=True)
    return buffer.getvalue()


def texts(tokens: list[str]) -> Callable[[random.Random], Iterator[bytes]]:
    def endless(draw: random.Random) -> Iterator[bytes]:
        while True:
            yield "".join(draw.choice(tokens) for _ in range(draw.randrange(1, 30))).encode()

    return endless


def studies(draw: random.Random) -> Iterator[bytes]:
    """Lines moved, taken out and doubled, values swapped, and bytes damaged."""
    damaged = damaged_copies(STUDY.encode(), 10**9, draw.randrange(10**6))
    while True:
        lines = STUDY.splitlines()
        for _ in range(draw.randrange(1, 4)):
            k, other = draw.randrange(len(lines)), draw.choice(lines)
            key, _, value = lines[k].partition(" = ")
            lines[k] = draw.choice([f"{key} = {other.partition(' = ')[2]}", other, "", f"{lines[k]}\n{other}", value])
        yield "\n".join(lines).encode()
        yield next(damaged)[1]


def setups(draw: random.Random) -> Iterator[bytes]:
    """The stored model, priors and solver with parts replaced, swapped or taken out."""
    setup = tiny_with_model().setup
    text = json.dumps(encode_setup(setup.problem, Solver(substeps=1)))
    while True:
        data = json.loads(text)
        for _ in range(draw.randrange(1, 4)):
            _change(draw, data)
        yield json.dumps(data).encode()


def _change(draw: random.Random, data: Any) -> None:
    """One place of nested data gets another value."""
    while True:
        keys = list(data) if isinstance(data, dict) else range(len(data))
        if not keys:
            return
        key = draw.choice(list(keys))
        if isinstance(data[key], dict | list) and data[key] and draw.random() < 0.8:
            data = data[key]
            continue
        others: list[Any] = [None, -1, 10**9, 1e308, "x", "os.system", [], {}, True, data, {"other": {"module": "os"}}]
        chosen = draw.choice(others)
        data[key] = json.loads(json.dumps(chosen))
        return


def read(suffix: str) -> Callable[[Path, bytes], None]:
    def attempt(folder: Path, content: bytes) -> None:
        path = folder / f"input{suffix}"
        path.write_bytes(content)
        if suffix == ".toml":
            read_study(path)
            return
        table = read_table(path)
        for name in table.names:
            table.numbers(name)

    return attempt


def called(function: Callable[[Any], Any]) -> Callable[[Path, bytes], None]:
    return lambda folder, content: function(content.decode())


KINDS: dict[str, tuple[Callable[[random.Random], Iterator[bytes]], Callable[[Path, bytes], None]]] = {
    "csv": (csv_files, read(".csv")),
    "npz": (damaged(npz_file()), read(".npz")),
    "mat 5": (damaged(mat_file(5)), read(".mat")),
    "mat 7.3": (damaged(mat_file(7)), read(".mat")),
    "study": (studies, read(".toml")),
    "equation": (texts(TOKENS), called(parse)),
    "prior": (texts(PRIOR_TOKENS), called(parse_prior)),
    "stored model": (setups, called(lambda text: decode_setup(json.loads(text)))),
}
"""Kind of input -> what draws malformed ones, and what reads them."""


def outcome(kind: str, folder: Path, content: bytes) -> str:
    """`refused` with one sentence, `read` if it still makes sense, or how it failed."""
    try:
        KINDS[kind][1](folder, content)
    except (InputError, UnstorableError) as error:
        return "refused" if "Traceback" not in str(error) and len(str(error)) < 4000 else f"said too much: {error}"
    except BaseException as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    return "read"
