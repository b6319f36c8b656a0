"""Numbers for people: as many digits as their uncertainty allows."""

import math


def with_uncertainty(value: float, sd: float) -> str:
    """Two digits of the standard deviation decide: 1.00234 with sd 0.0046 -> 1.0023."""
    if not (math.isfinite(value) and math.isfinite(sd)) or sd <= 0:
        return plain(value)
    last = math.floor(math.log10(sd)) - 1
    if value != 0 and not -5 < math.floor(math.log10(abs(value))) < 6:
        digits = max(math.floor(math.log10(abs(value))) - last, 0)
        return power(f"{value:.{digits}e}")
    return f"{value:.{max(-last, 0)}f}".replace("-", "\u2212")


def plain(value: float) -> str:
    """Four digits."""
    return power(f"{value:.4g}") if math.isfinite(value) else "—"


def power(text: str) -> str:
    """`1.2e-05` -> 1.2·10⁻⁵, with a true minus sign."""
    mantissa, _, exponent = text.partition("e")
    if not exponent:
        return mantissa.replace("-", "\u2212")
    raised = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{mantissa}·10{raised}".replace("-", "\u2212")
