"""Whiteness and size of one-step prediction errors: if they are not white, the model or the noise is wrong.

Model error is not integration error.  Divided by the standard deviation that noise, state and integration give them,
the errors of a correct model are independent standard normals.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpyro.distributions as dist
from jaxtyping import Float
from scipy.special import chdtrc

from probsysid.model.noise import AnyNoise, level_of
from probsysid.model.priors import Prior

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LAGS = 40
SIGNIFICANT = 0.01

DOUBTFUL = 1e-6
"""Ljung-Box probability below which correlated errors are worth a warning: no accident in a thousand runs."""

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
    def bound(self) -> float:
        """Half-width of the band that holds 95 % of the correlations of white noise."""
        return 1.96 / float(np.sqrt(len(self.values)))

    @property
    def white(self) -> bool:
        return self.probability > SIGNIFICANT

    def plot(self, path: Any = None, rate: float = 1.0) -> "Figure":
        """Errors over the samples, their correlation, and their spectrum; `rate` is the sampling rate in Hz."""
        from probsysid.report.figures.residuals import plot_residuals

        return plot_residuals(self, path, rate)


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


def verdict(output: str, found: Residuals) -> str:
    """The whiteness of an output's residuals in one sentence."""
    spread = f"standard deviation {found.spread:.2f} (1 expected)"
    if found.white:
        return f"{output}: white as far as the data can tell (Ljung-Box p = {found.probability:.2g}); {spread}."
    return (
        f"{output}: not white (Ljung-Box p = {found.probability:.1g}); {spread}. Something is left that the model does "
        "not explain: look at the spectrum for where, or try another model or process_noise."
    )


def doubts(found: Mapping[str, Residuals], fixed_noise: Mapping[str, Prior], fixed_steps: bool = False) -> list[str]:
    """Sentences for those outputs whose errors say that something is wrong."""
    sentences = []
    for output, residuals in found.items():
        noise = fixed_noise.get(output)
        if noise is not None and residuals.spread > TOO_WIDE:
            sentences.append(
                f"the noise of {output!r} is fixed at {noise:.3g}, and one-step prediction errors are "
                f"{residuals.spread:.2g} times as large as noise and integration error allow: the posterior is far too "
                "narrow and may be far off. Let the noise be inferred, or switch on process_noise."
            )
        elif residuals.probability < DOUBTFUL:
            sentences.append(" ".join([_not_white(output, residuals), *_suspects(noise, fixed_steps)]))
    return sentences


def _not_white(output: str, residuals: Residuals) -> str:
    lag = 1 + int(np.argmax(np.abs(residuals.correlation)))
    return (
        f"one-step prediction errors of {output!r} are not white (correlation {residuals.correlation[lag - 1]:.2f} at "
        f"lag {lag}, Ljung-Box p = {residuals.probability:.1g}): the data disagree with the model more than noise and "
        "integration error allow."
    )


def _suspects(noise: float | None, fixed_steps: bool) -> list[str]:
    """Remedies to try, the simplest first."""
    found = []
    if fixed_steps:
        found.append("The integration steps are fixed: rule them out with substeps='auto'.")
    if noise is not None:
        found.append(f"The noise is fixed at {noise:.3g}: far too low, that alone would do it; let it be inferred.")
    found.append(
        "Look at the residuals in the report, switch on process_noise, or compare with a richer model by evidence."
    )
    return found


def find_doubts(
    errors: Sequence[Float[np.ndarray, "_sample output"]],
    outputs: Sequence[str],
    noise: Mapping[str, AnyNoise],
    fixed_steps: bool,
) -> list[str]:
    """Sentences about prediction errors that contradict the model or the given noise, over all records."""
    found = {}
    for index, values in enumerate(errors):
        for output, column in zip(outputs, values.T, strict=True):
            name = output if len(errors) == 1 else f"{output} of record {index}"
            found[name] = (analyse(column), level_of(noise[output]) if output in noise else None)
    fixed = {name: level for name, (_, level) in found.items() if not isinstance(level, dist.Distribution | None)}
    known = {name: residuals for name, (residuals, _) in found.items() if residuals is not None}
    return doubts(known, fixed, fixed_steps=fixed_steps)
