"""What is written is read back as the same tables."""

import tomllib

import pytest

from probsysid.study.toml_writer import to_toml


@pytest.mark.parametrize(
    "value",
    [
        float("inf"),
        -float("inf"),
        1e300,
        1e15,
        123.0,
        0.1,
        -0.0,
        10**40,
        True,
        "",
        'a "b" \\ \x7f \n \u2028',
        [0, "end"],
    ],
)
def test_values(value: object) -> None:
    tables = {"data": {"train": {"seconds": [0, value]}}, "a key with = in it": value, "": value}
    assert tomllib.loads(to_toml(tables)) == tables
