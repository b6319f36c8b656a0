"""MATLAB's two file formats."""

from pathlib import Path

import h5py
import numpy as np
import scipy.io

from probsysid.data.readers import Channel, read_record, read_table
from tests.data.readers.files import FORCE, POSITION, TIME


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
