"""Whiteness and size of one-step prediction errors: if they are not white, the model or the noise is wrong.

Model error is not integration error.  Divided by the standard deviation that noise, state and integration give them,
the errors of a correct model are independent standard normals.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from scipy.special import chdtrc
from scipy.stats import kurtosistest

from probsysid._internal.notebook import html
from probsysid.posterior.cards import residuals_card

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LAGS = 40
SIGNIFICANT = 0.01

DOUBTFUL = 1e-6
"""Ljung-Box probability below which correlated errors are worth a warning: no accident in a thousand runs."""

HEAVY = 1e-9
"""Probability of a kurtosis of normal errors above which their tails are worth a warning.  Where the approximation
(Anscombe and Glynn) says 1e-6, it is some 1e-5 for 200 samples (2.4 million sets); outliers give far less than 1e-9."""

FAR = 4.0
"""Standard deviations, of the middle of the errors, beyond which one is an outlier: of 16 000 normal ones, one."""

NORMAL_DEVIATION = 0.6745
"""Median absolute deviation of a standard normal."""

TOO_WIDE = 1.5
"""Standard deviation of the whitened errors above which a fixed noise level is called too low: for correct ones it is
1 +- 0.7 / sqrt(samples)."""


@dataclass(frozen=True, eq=False)
class Residuals:
    """Whitened one-step prediction errors of one output, and what they say."""

    values: np.ndarray
    samples: np.ndarray
    """Index of the sample of each value; missing samples have none."""
    correlation: np.ndarray
    """At lags 1, 2, ..."""
    probability: float
    """Of correlations at least as large if the errors were white (Ljung and Box)."""

    @property
    def spread(self) -> float:
        """Their standard deviation: 1 if noise and model are right."""
        return float(np.std(self.values))

    @property
    def bulk(self) -> float:
        """Standard deviation of the middle of the errors, which outliers hardly touch: from the median deviation."""
        return float(np.median(np.abs(self.values - np.median(self.values)))) / NORMAL_DEVIATION

    @property
    def outliers(self) -> int:
        """How many errors are far from the others; 0 where tails are as those of a normal distribution may be."""
        if kurtosistest(self.values, alternative="greater").pvalue >= HEAVY:
            return 0
        return int(np.sum(np.abs(self.values - np.median(self.values)) > FAR * self.bulk))

    @property
    def bound(self) -> float:
        """Half-width of the band that holds 95 % of the correlations of white noise."""
        return 1.96 / float(np.sqrt(len(self.values)))

    @property
    def white(self) -> bool:
        return self.probability > SIGNIFICANT

    def plot(self, path: str | Path | None = None, rate: float = 1.0) -> "Figure":
        """Errors over the samples, their correlation, and their spectrum; `rate` is the sampling rate in Hz."""
        from probsysid.report.figures.residuals import plot_residuals

        return plot_residuals(self, path, rate)

    def _repr_html_(self) -> str:
        return html(residuals_card(self))

    def __repr__(self) -> str:
        words = "white" if self.white else "not white"
        return f"Residuals: {len(self.values)} samples, {words} (p = {self.probability:.2g}), spread {self.spread:.2f}"


def analyse(errors: Float[np.ndarray, " sample"]) -> Residuals | None:
    """Residuals from whitened errors; missing ones are NaN and left out.  None if there are too few to judge."""
    values = errors
    samples = np.flatnonzero(np.isfinite(values))
    values = values[samples]
    if len(values) < 20 or np.std(values) == 0:
        return None
    centred = values - values.mean()
    lags = min(LAGS, len(values) // 4)
    products = [centred[lag:] @ centred[:-lag] for lag in range(1, lags + 1)]
    correlation = np.array(products) / (centred @ centred)
    count = len(values)
    statistic = count * (count + 2) * np.sum(correlation**2 / (count - np.arange(1, lags + 1)))
    return Residuals(values, samples, correlation, float(chdtrc(lags, statistic)))


def verdict(output: str, found: Residuals, process_noise: bool = False) -> str:
    """The whiteness of an output's residuals in one sentence; `process_noise` says whether the model has it."""
    spread = f"standard deviation {found.spread:.2f} (1 expected)"
    if found.white:
        return f"{output}: white as far as the data can tell (Ljung-Box p = {found.probability:.2g}); {spread}."
    remedy = "try another model" if process_noise else "try another model or process_noise"
    return (
        f"{output}: not white (Ljung-Box p = {found.probability:.1g}); {spread}. Something is left that the model does "
        f"not explain: look at the spectrum for where, or {remedy}."
    )
