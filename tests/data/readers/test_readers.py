"""Files that engineers have, and what is said of those that are wrong."""

from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.io

import probsysid as ps
from probsysid.data.readers import Channel, read_record, read_table

CHANNELS = {"inputs": {"force": Channel("F", unit="N")}, "outputs": {"position": Channel("x", unit="m")}}
TIME, FORCE, POSITION = 0.1 * np.arange(5), np.array([0, 1, 2.5, -1, 0]), np.array([0.0, 0.5, 1, 1.5, 2])


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def table_text(separator: str = ",", decimal: str = ".", header: str | None = "t,F,x") -> str:
    lines = [] if header is None else [header.replace(",", separator)]
    for row in zip(TIME, FORCE, POSITION, strict=True):
        lines.append(separator.join(f"{value:.6g}".replace(".", decimal) for value in row))
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", table_text()),
        ("a.csv", table_text(";")),
        ("a.csv", table_text(";", ",")),
        ("a.csv", table_text("\t")),
        ("a.txt", table_text(" ")),
        ("a.tsv", table_text("\t")),
        ("a.csv", "# made by a logger\n% at noon\n" + table_text()),
        ("a.csv", "\ufeff" + table_text()),
        ("a.csv", table_text().replace("\n", "\r\n")),
        ("a.csv", table_text().replace("\n", "\n\n")),
        ("a.csv", table_text().replace("t,F,x", '"t", "F", "x"')),
        ("a.csv", table_text().encode("utf-16")),
    ],
)
def test_text(tmp_path: Path, name: str, content: str | bytes) -> None:
    record, notes = read_record(write(tmp_path / name, content), time="t", **CHANNELS)
    np.testing.assert_array_equal(record.inputs["force"], FORCE)
    np.testing.assert_array_equal(record.outputs["position"], POSITION)
    assert record.dt == pytest.approx(0.1)
    assert record.units == {"force": "N", "position": "m"}
    assert notes == ()


def test_columns_by_number_without_a_header(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", table_text(header=None))
    record, _ = read_record(path, time=1, inputs={"force": Channel(2)}, outputs={"position": Channel("3")})
    np.testing.assert_array_equal(record.inputs["force"], FORCE)
    np.testing.assert_array_equal(record.outputs["position"], POSITION)


def test_scale_offset_and_missing_outputs(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "t;F;x\n0;1;2\n1;2;\n2;3;NaN\n")
    outputs = {"position": Channel("x", scale=1e-3, offset=1.0)}
    record, _ = read_record(path, time="t", time_unit="ms", inputs={"force": Channel("F")}, outputs=outputs)
    np.testing.assert_array_equal(record.outputs["position"], [1.002, np.nan, np.nan])
    assert record.dt == pytest.approx(1e-3)


def test_matlab_old_format_with_structures_and_matrices(tmp_path: Path) -> None:
    path = tmp_path / "a.mat"
    content = {
        "t": TIME,
        "run": {"F": FORCE[:, None]},
        "y": np.stack([POSITION, 2 * POSITION], axis=1),
        "note": "hello",
    }
    scipy.io.savemat(path, content)
    assert read_table(path).names == ("t", "run.F", "y(:,1)", "y(:,2)")
    record, _ = read_record(path, time="t", inputs={"force": Channel("run.F")}, outputs={"position": Channel("y(:,2)")})
    np.testing.assert_array_equal(record.inputs["force"], FORCE)
    np.testing.assert_array_equal(record.outputs["position"], 2 * POSITION)


def test_matlab_new_format(tmp_path: Path) -> None:
    path = tmp_path / "a.mat"
    with h5py.File(path, "w") as file:
        file["t"] = TIME[None]
        file["run/F"] = FORCE[None]
        file["y"] = np.stack([POSITION, 2 * POSITION])  # MATLAB's 5 x 2 matrix, stored transposed
        file["name"] = np.frombuffer("run".encode("utf-16-le"), dtype=np.uint16)
        file["name"].attrs["MATLAB_class"] = b"char"
        file["#refs#/a"] = np.zeros(3)
    assert set(read_table(path).names) == {"t", "run.F", "y(:,1)", "y(:,2)"}
    record, _ = read_record(path, dt=0.1, inputs={"force": Channel("run.F")}, outputs={"position": Channel("y(:,1)")})
    np.testing.assert_array_equal(record.outputs["position"], POSITION)


def test_numpy_archive(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, t=TIME, F=FORCE, x=POSITION)
    record, _ = read_record(path, time="t", **CHANNELS)
    np.testing.assert_array_equal(record.inputs["force"], FORCE)


def test_parquet(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pytest.importorskip("pyarrow")
    pd.DataFrame({"t": TIME, "F": FORCE, "x": POSITION}).to_parquet(path)
    record, _ = read_record(path, time="t", **CHANNELS)
    np.testing.assert_array_equal(record.inputs["force"], FORCE)
    with pytest.raises(ps.InputError, match=r"b\.parquet is not a parquet file"):
        read_table(write(tmp_path / "b.parquet", "nothing"))


def test_parquet_without_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: object) -> None:
        raise ImportError("no pyarrow")

    monkeypatch.setattr(pd, "read_parquet", missing)
    with pytest.raises(ps.InputError, match=r"pip install 'probsysid\[parquet\]'"):
        read_table(write(tmp_path / "a.parquet", "x"))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "", r"a\.csv is empty"),
        ("a.csv", "\n\n", "no lines with data"),
        ("a.csv", "t,F,x\n", "a header and no data"),
        ("a.csv", "t,F,x\n0,1,2\n1,broken,2\n", r"column 'F' has 'broken' at line 3; expected a number"),
        ("a.csv", "# c\n\nt,F,x\n0,1,2\n\n1,broken,2\n", r"column 'F' has 'broken' at line 6"),
        ("a.csv", "t,F,x\n0,1,2\n1,,2\n", r"column 'F' has no value at line 3; an input must be known"),
        ("a.csv", "t,F,x\n0,1,2\n1,inf,2\n", r"column 'F' has inf at line 3"),
        ("a.csv", "t,F,x\n0,1,2\n1,1,-inf\n", r"output 'position' is -inf at sample 1"),
        ("a.csv", "t,F,x\n0,1,2\n1,2,3,4\n", r"line 3 has 4 cells, expected 3"),
        ("a.csv", "t,F,x\n0,1,2,9\n1,2,3,4\n", r"line 2 has 4 cells, expected 3"),
        ("a.csv", "t,F,x\n0,1,2\n0,1,2\n", r"time column 't' repeats 0 s at line 3"),
        ("a.csv", "t,F,x\n0,1,2\n2,1,2\n1,1,2\n", r"time column 't' goes back: it has 1 s at line 4, after 2 s"),
        ("a.csv", "t,F,x\n0,1,2\n,1,2\n", r"time column 't' has no value at line 3"),
        ("a.csv", "t,F,x\nnoon,1,2\nlater,1,2\n", r"column 't' has 'noon' at line 2"),
        ("a.csv", "t,G,x\n0,1,2\n", r"there is no column 'F'; there are: t, G, x"),
        ("a.csv", "t,F,F\n0,1,2\n", r"two columns are called 'F'"),
        ("a.csv", "t,F,x\n0,1,2°\n".encode("latin-1"), r"line 2 is not utf-8 text \(byte 0xb0\); set encoding"),
        ("a.csv", b"\x00\x01\x02\x03", "holds binary data"),
        ("a.mat", b"MATLAB? no", r"a\.mat is not a MATLAB file"),
        ("a.npz", b"PK no", r"a\.npz is not an archive"),
        ("a.xlsx", b"x", r"files ending in '\.xlsx' cannot be read"),
    ],
)
def test_wrong_files(tmp_path: Path, name: str, content: str | bytes, message: str) -> None:
    with pytest.raises(ps.InputError, match=message) as caught:
        read_record(write(tmp_path / name, content), time="t", **CHANNELS)
    assert name in str(caught.value)


def test_a_missing_file_and_its_neighbour(tmp_path: Path) -> None:
    write(tmp_path / "measurement.csv", "x")
    with pytest.raises(ps.InputError, match=r"there is no file .*Did you mean 'measurement\.csv'"):
        read_table(tmp_path / "mesurement.csv")


def test_lengths_of_variables_are_compared(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, t=TIME, F=FORCE[:4], x=POSITION)
    with pytest.raises(ps.InputError, match=r"'F' has 4 samples, but the time has 5"):
        read_record(path, time="t", **CHANNELS)


def test_an_archive_with_pickled_code_is_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, F=np.array([print], dtype=object))
    with pytest.raises(ps.InputError, match="not an archive of plain arrays"):
        read_table(path)


# Times


def record_with(tmp_path: Path, time: np.ndarray, digits: str = ".17g", **options: object) -> tuple:
    lines = [f"{t:{digits}},0,0" for t in time]
    return read_record(write(tmp_path / "a.csv", "t,F,x\n" + "\n".join(lines)), time="t", **CHANNELS, **options)


def test_rounded_times_are_uniform(tmp_path: Path) -> None:
    exact = np.arange(400) / 610.35
    record, notes = record_with(tmp_path, exact, ".4f")
    assert record.dt == pytest.approx(1 / 610.35, rel=1e-5)
    assert "taken as uniform" in notes[0]


def test_small_jitter_is_removed_and_large_jitter_kept(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    grid, noise = 0.01 * np.arange(300), random.uniform(-1, 1, 300)
    small, notes = record_with(tmp_path, grid + 5e-5 * noise)
    assert small.dt == pytest.approx(0.01, rel=1e-4) and "taken as uniform" in notes[0]
    large, notes = record_with(tmp_path, grid + 2e-3 * noise)
    assert large.dt is None and "kept as it is" in notes[0]
    forced, _ = record_with(tmp_path, grid + 2e-3 * noise, jitter="remove")
    assert forced.dt == pytest.approx(0.01, rel=1e-3)


def test_gaps_are_counted(tmp_path: Path) -> None:
    time = np.delete(0.01 * np.arange(300), [50, 51, 200])
    record, notes = record_with(tmp_path, time)
    assert record.dt is None and "with 2 gaps" in notes[0]
    with pytest.raises(ps.InputError, match="cannot be taken as uniform"):
        record_with(tmp_path, time, jitter="remove")


def test_dates(tmp_path: Path) -> None:
    stamps = pd.date_range("2024-03-01 12:00", periods=4, freq="250ms")
    lines = "".join(f"{stamp.isoformat()},0,0\n" for stamp in stamps)
    record, _ = read_record(write(tmp_path / "a.csv", "t,F,x\n" + lines), time="t", **CHANNELS)
    assert record.dt == pytest.approx(0.25)
    assert record.time[0] == 0
