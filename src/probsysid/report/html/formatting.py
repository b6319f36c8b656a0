"""Numbers and labels as text: as many digits as the uncertainty allows, true minus signs, raised exponents."""

import math
import re
from collections.abc import Mapping


def with_uncertainty(value: float, sd: float) -> str:
    """Digits down to the second significant one of the standard deviation: 1.00234 with sd 0.0046 -> 1.0023."""
    if not (math.isfinite(value) and math.isfinite(sd)) or sd <= 0:
        return plain(value)
    last = math.floor(math.log10(sd)) - 1
    if value != 0 and not -5 < math.floor(math.log10(abs(value))) < 6:
        digits = max(math.floor(math.log10(abs(value))) - last, 0)
        return power(f"{value:.{digits}e}")
    return f"{value:.{max(-last, 0)}f}".replace("-", "\u2212")


def plain(value: float) -> str:
    """Four significant digits; a dash where there is no finite number."""
    return power(f"{value:.4g}") if math.isfinite(value) else "—"


def power(text: str) -> str:
    """`1.2e-05` -> 1.2·10⁻⁵, with a true minus sign."""
    mantissa, _, exponent = text.partition("e")
    if not exponent:
        return mantissa.replace("-", "\u2212")
    superscript = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{mantissa}·10{superscript}".replace("-", "\u2212")


def shown(value: object) -> str:
    """Any value as text: a float with four significant digits."""
    return plain(value) if isinstance(value, float) else str(value)


def labelled(name: str, units: Mapping[str, str]) -> str:
    """Name and unit, `x [m]`; an entry of an array, `name[0]`, has the unit of its array."""
    unit = units.get(name.split("[")[0], "")
    return f"{name} [{unit}]" if unit else name


def raised(unit: str) -> list[tuple[str, str]]:
    """A unit as pairs of text and the exponent after it, which may be decimal: `N/m^3` -> [("N/m", "3")]."""
    pieces = re.split(r"\^(-?\d+(?:\.\d+)?)", unit)
    return list(zip(pieces[::2], [*pieces[1::2], ""], strict=True))
