"""A formula that is known while the quantities in it are not, as text and numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, isfinite, log10


@dataclass(frozen=True)
class Combination:
    """A formula that is known while the quantities in it are not."""

    formula: str
    members: tuple[str, ...]
    exponents: tuple[int, ...]
    """Of a product, or the factors of a sum; one for each member."""
    mean: float
    sd: float
    alone: tuple[tuple[float, float], ...]
    """Mean and sd of each member."""

    @property
    def sentence(self) -> str:
        """What is known, and how little of the members alone."""
        pairs = zip(self.members, self.alone, strict=True)
        each = ", ".join(f"{name} alone: {with_sd(*moments)}" for name, moments in pairs)
        return f"only {self.formula} is known: {with_sd(self.mean, self.sd)} ({each})"


def with_sd(mean: float, sd: float) -> str:
    """`2.0071 +- 0.0067`: both down to the second significant digit of the standard deviation."""
    if not (isfinite(mean) and isfinite(sd)) or sd <= 1e-12 * abs(mean):  # rounding
        return f"{mean:.4g} +- {sd:.2g}"
    last = floor(log10(sd)) - 1
    size = max(abs(mean), sd)
    if 1e-4 < size < 1e6:
        return f"{mean:.{max(-last, 0)}f} +- {sd:.{max(-last, 0)}f}"
    return f"{mean:.{max(floor(log10(size)) - last, 0)}e} +- {sd:.1e}"


def product_of_powers(names: Sequence[str], exponents: Sequence[int]) -> str:
    """`a^2*b/(c*d)`."""
    parts: dict[bool, list[str]] = {True: [], False: []}
    for name, exponent in zip(names, exponents, strict=True):
        parts[exponent > 0].append(name if abs(exponent) == 1 else f"{name}^{abs(exponent)}")
    above, below = "*".join(parts[True]) or "1", "*".join(parts[False])
    if not below:
        return above
    return f"{above}/({below})" if len(parts[False]) > 1 else f"{above}/{below}"


def sum_of_terms(names: Sequence[str], factors: Sequence[int]) -> str:
    """`a + 2*b - c`."""
    terms = [
        f"{'-' if factor < 0 else '+'} {name if abs(factor) == 1 else f'{abs(factor)}*{name}'}"
        for name, factor in zip(names, factors, strict=True)
    ]
    return " ".join(terms).removeprefix("+ ")
