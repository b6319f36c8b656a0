"""What a compiled program does in its loops."""

import re


def moved_in_loops(program: str, length: int) -> list[str]:
    """Instructions in loops that write whole arrays of so many rows, from the text of a compiled program.

    To write a row into such an array is done in place, if it is an operation of its own.  One that has other results as
    well, or a copy, writes all rows.
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
