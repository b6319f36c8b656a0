"""Numbers, labels and units as text."""

import pytest

from probsysid.report.html.formatting import labelled, plain, raised, shown, with_uncertainty


@pytest.mark.parametrize(
    ("value", "sd", "text"),
    [
        (1.002342, 0.0046, "1.0023"),
        (-0.10032, 0.0005, "−0.10032"),
        (51234.0, 120.0, "51234"),
        (1.23456e-7, 1.2e-9, "1.235·10⁻⁷"),
        (0.0, 0.1, "0.00"),
        (5.0, 0.0, "5"),
    ],
)
def test_digits_follow_the_uncertainty(value: float, sd: float, text: str) -> None:
    assert with_uncertainty(value, sd) == text


def test_plain_numbers() -> None:
    assert plain(float("nan")) == "—"
    assert plain(123456789.0) == "1.235·10⁸"


def test_any_value_as_text() -> None:
    assert [shown(value) for value in (0.123456, 3, True, "text", [1.5])] == ["0.1235", "3", "True", "text", "[1.5]"]


def test_a_label_has_the_unit_of_its_array() -> None:
    units = {"k": "N/m", "free": ""}
    assert [labelled(name, units) for name in ("k[1]", "free", "unknown")] == ["k[1] [N/m]", "free", "unknown"]


@pytest.mark.parametrize(
    ("unit", "pieces"),
    [
        ("", [("", "")]),
        ("kg", [("kg", "")]),
        ("N/m^3", [("N/m", "3"), ("", "")]),
        ("m^2 s^-1/V", [("m", "2"), (" s", "-1"), ("/V", "")]),
        ("V^0.5/s", [("V", "0.5"), ("/s", "")]),
        ("a^b", [("a^b", "")]),
    ],
)
def test_exponents_of_units_are_found(unit: str, pieces: list[tuple[str, str]]) -> None:
    assert raised(unit) == pieces
