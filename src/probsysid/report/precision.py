"""How well each constant is known, in plain words: "k3 is known to 0.2 %"."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

UNKNOWN = 0.5
"""Relative standard deviation from which on a constant is known by its size at best."""


def in_words(table: "pd.DataFrame", names: list[str]) -> list[str]:
    """Sentences without a full stop: constants from the best known to the least, then those that are not.

    Args:
        table: as `Posterior.table`.
        names: the constants to speak of.
    """
    known, rough, signless, prior = [], [], [], []
    for name in names:
        row = table.loc[name]
        relative = row["sd"] / abs(row["mean"]) if row["mean"] else float("inf")
        if "at prior" in row["flags"]:
            prior.append(name)
        elif row["q05"] < 0 < row["q95"]:
            signless.append(name)
        elif relative >= UNKNOWN:
            rough.append(name)
        else:
            known.append((relative, name))
    sentences = []
    if known:
        parts = [f"{name} {'is known ' if i == 0 else ''}to {percent(r)}" for i, (r, name) in enumerate(sorted(known))]
        sentences.append(listed(parts))
    if rough:
        sentences.append(f"{listed(rough)} {_is(rough)} known by size only: to about a factor of two")
    if signless:
        sentences.append(f"the sign of {listed(signless)} is not known: zero is within the 90 % interval")
    if prior:
        sentences.append(f"the data say nothing of {listed(prior)}: the posterior is the prior")
    return sentences


def percent(relative: float) -> str:
    """`0.2 %`, `1.5 %`, `12 %`: two digits if the first is 1, else one."""
    value = 100 * relative
    digits = 2 if f"{value:.3e}"[0] == "1" else 1
    rounded = float(f"{value:.{digits}g}")
    return f"{rounded:.10f}".rstrip("0").rstrip(".") + " %" if rounded >= 1e-4 else "less than 0.0001 %"


def listed(parts: list[str]) -> str:
    """`a, b and c`."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _is(names: list[str]) -> str:
    return "is" if len(names) == 1 else "are"
