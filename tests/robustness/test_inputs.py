"""A thousand malformed inputs: each is refused in one sentence, or still makes sense; none ends in another error."""

import random
from itertools import islice
from pathlib import Path

import pytest

from tests.robustness.inputs import KINDS, outcome

COUNTS = {"csv": 600, "npz": 400, "study": 400, "equation": 600, "prior": 400, "stored model": 200}
"""Of MATLAB files, each of which takes a process, `python -m validation robustness` reads 200."""


def test_there_are_a_thousand() -> None:
    assert sum(COUNTS.values()) >= 1000


@pytest.mark.parametrize("kind", COUNTS)
def test_malformed_inputs(kind: str, tmp_path: Path) -> None:
    draw = random.Random(f"{kind} 1")
    found = []
    for number, content in enumerate(islice(KINDS[kind][0](draw), COUNTS[kind])):
        found.append(outcome(kind, tmp_path, content))
        assert found[-1] in ("refused", "read"), (number, content[:300], found[-1])
    assert found.count("refused") > COUNTS[kind] / 5  # the inputs are malformed indeed
