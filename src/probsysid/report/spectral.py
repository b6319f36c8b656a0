"""Welch's estimate of the power spectral density, for the figures of the page and of papers."""

import numpy as np
import scipy.signal
from jaxtyping import Float

Spectrum = tuple[Float[np.ndarray, " frequency"], Float[np.ndarray, " frequency"]]


def welch(values: Float[np.ndarray, " sample"], rate: float, segment: int) -> Spectrum:
    """Frequencies above zero and the one-sided density there; `segment` is the number of samples per segment."""
    frequency, density = scipy.signal.welch(values, fs=rate, nperseg=min(segment, len(values)))
    return frequency[1:], density[1:]


def residual_segment(samples: int) -> int:
    """Samples per segment for the spectrum of residuals: an eighth of them, at least 32."""
    return max(32, samples // 8)
