"""Copies of whole arrays in the loops of a compiled program."""

import re


def moved_in_loops(program: str, length: int) -> list[str]:
    """Instructions in loops that write whole arrays of `length` rows, from the text of a compiled program.

    A row is written into such an array in place if the write is an operation of its own.  A fusion with several
    results, or a copy, writes all rows.
    """
    bodies = set(re.findall(r"body=%?([\w.\-]+)", program))
    computations = {
        name: text for text in program.split("\n\n") for name in re.findall(r"^%?([\w.\-]+) ", text.strip())
    }
    long = rf"f64\[{length}[,\]]"
    several = rf" = \([^()]*{long}[^()]*\) fusion\("
    whole = rf" = {long}\S* (copy|transpose)\("
    lines = [line for name in bodies for line in computations[name].split("\n")]
    return [line.strip() for line in lines if re.search(several, line) or re.search(whole, line)]
