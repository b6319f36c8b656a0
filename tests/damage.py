"""Copies of a file with damage such as disks, networks and editors do; the same ones for the same seed."""

import random
from collections.abc import Iterator


def damaged_copies(content: bytes, count: int, seed: int = 0) -> Iterator[tuple[str, bytes]]:
    """What was done, and the content after it; the content is never the original."""
    draw = random.Random(seed)
    made = 0
    while made < count:
        kind = draw.choice(["bit", "bit", "bit", "cut", "zeros", "swapped", "inserted", "head", "appended"])
        where = draw.randrange(len(content))
        copy = bytearray(content)
        match kind:
            case "bit":
                copy[where] ^= 1 << draw.randrange(8)
            case "cut":
                del copy[where:]
            case "zeros":
                copy[where : where + 64] = bytes(len(copy[where : where + 64]))
            case "swapped":
                copy[where:] = copy[where:][::-1]
            case "inserted":
                copy[where:where] = draw.randbytes(draw.randrange(1, 20))
            case "head":
                del copy[:where]
            case "appended":
                copy += draw.randbytes(draw.randrange(1, 20))
        if bytes(copy) != content:
            made += 1
            yield f"{kind} at {where}", bytes(copy)
