"""Formulas and numbers as text."""

import pytest

from probsysid.posterior.diagnostics.formulas import product_of_powers, sum_of_terms, with_sd


def test_products_and_sums() -> None:
    assert product_of_powers(["a", "b", "c"], [2, 1, -1]) == "a^2*b/c"
    assert product_of_powers(["a", "b", "c"], [1, -1, -3]) == "a/(b*c^3)"
    assert sum_of_terms(["a", "b", "c"], [1, 2, -1]) == "a + 2*b - c"


@pytest.mark.parametrize(
    ("mean", "sd", "text"),
    [
        (2.00712, 0.0067, "2.0071 +- 0.0067"),
        (-0.2, 3.31, "-0.2 +- 3.3"),
        (12345.6, 789.0, "12346 +- 789"),
        (2.5e-7, 1.2e-9, "2.500e-07 +- 1.2e-09"),
        (1.0, 0.0, "1 +- 0"),
        (2.0, 1e-16, "2 +- 1e-16"),
    ],
)
def test_numbers_with_an_sd(mean: float, sd: float, text: str) -> None:
    assert with_sd(mean, sd) == text
