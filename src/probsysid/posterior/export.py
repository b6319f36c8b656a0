"""A posterior for other tools: a pandas data frame, csv, MATLAB."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from probsysid._internal.errors import InputError
from probsysid._internal.validation import check_count, check_seed
from probsysid.posterior.draws import draw_indices

if TYPE_CHECKING:
    from probsysid.posterior.posterior import Posterior

MATLAB_NAME = 31
"""Characters that a name may have in every version of MATLAB."""


def to_dataframe(posterior: "Posterior", draws: int | None = None, *, seed: int = 0) -> pd.DataFrame:
    """One row per particle, one column per quantity, and its `weight`; with `draws` that many equally weighted rows.

    The attribute `units` of the frame maps names to units.
    """
    frame = pd.DataFrame({name: np.asarray(value) for name, value in posterior.columns.items()})
    frame["weight"] = posterior.weights
    if draws is not None:
        check_count("draws", draws)
        check_seed(seed)
        frame = frame.iloc[draw_indices(posterior.weights, draws, seed)].reset_index(drop=True)
        frame["weight"] = 1 / draws
    frame.attrs["units"] = dict(posterior.settings.units)
    return frame


def to_csv(posterior: "Posterior", path: str | Path, draws: int | None = None, *, seed: int = 0) -> None:
    """Write what `to_dataframe` returns, all digits included."""
    to_dataframe(posterior, draws, seed=seed).to_csv(path, index=False)


def to_matlab(posterior: "Posterior", path: str | Path) -> None:
    """Write a .mat file: a structure `values` with a column per quantity, `weights`, `names`, `units`, `mean`, `sd`,
    `log_evidence` and its error.  In field names, characters that MATLAB does not allow become underscores."""
    from scipy.io import savemat

    names = list(posterior.columns)
    fields = [matlab_name(name) for name in names]
    if len(set(fields)) < len(fields):
        same = next(name for name, field in zip(names, fields, strict=True) if fields.count(field) > 1)
        raise InputError(f"{same!r} and another quantity are both called {matlab_name(same)!r} in MATLAB: rename one.")
    units = [posterior.settings.units.get(name.split("[")[0], "") for name in names]
    content = {
        "values": {f: posterior.columns[name][:, None] for f, name in zip(fields, names, strict=True)},
        "weights": posterior.weights[:, None],
        "names": np.array(names, dtype=object)[:, None],
        "units": np.array(units, dtype=object)[:, None],
        "mean": np.array([[posterior.mean(name)] for name in names]),
        "sd": np.array([[posterior.sd(name)] for name in names]),
        "log_evidence": posterior.log_evidence,
        "log_evidence_error": posterior.log_evidence_error,
    }
    savemat(path, content, appendmat=False)


def matlab_name(name: str) -> str:
    """`noise.y` becomes `noise_y`, `k[0]` becomes `k_0`."""
    letters = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name).rstrip("_")
    return (letters if letters[:1].isalpha() else f"q{letters}")[:MATLAB_NAME]
