"""Samples that count otherwise than most, because of their noise: clipped ones, and outliers."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from probsysid.model.noise import Noise, clipped
from probsysid.posterior.simulate import Simulation

if TYPE_CHECKING:
    from probsysid.posterior.posterior import Posterior

FAR = 5.0
"""Noise levels beyond which a value is called an outlier: one in two million if the noise were Gaussian."""


class NoiseMarks(NamedTuple):
    """Indices of samples."""

    clipped: Int[np.ndarray, " clipped"]
    outliers: Int[np.ndarray, " outlier"]

    def sentences(self, output: str, samples: int) -> list[str]:
        """What they are, for a report."""
        found = []
        if len(self.clipped):
            found.append(
                f"{len(self.clipped)} of {samples} values of {output} are at a bound and count as at or beyond it."
            )
        if len(self.outliers):
            found.append(
                f"{len(self.outliers)} of {samples} values of {output} are outliers, more than {FAR:g} noise levels "
                "off the free run: Student-t noise lets them count little."
            )
        return found


def noise_marks(posterior: "Posterior", simulation: Simulation, output: str) -> NoiseMarks:
    """The samples of a free run whose values are clipped or, under Student-t noise, outliers."""
    noise, nothing = posterior.setup.problem.noise.get(output), np.empty(0, dtype=int)
    if not isinstance(noise, Noise):
        return NoiseMarks(nothing, nothing)
    measured = np.asarray(simulation.record.outputs[output])
    at_bound = clipped(noise.form, measured)
    if noise.degrees is None:
        return NoiseMarks(np.flatnonzero(at_bound), nothing)
    far = _errors(noise, measured, simulation.mean(output)) > FAR * _level(posterior, noise, output)
    return NoiseMarks(np.flatnonzero(at_bound), np.flatnonzero(far & ~at_bound))


def _errors(
    noise: Noise, measured: Float[np.ndarray, " sample"], simulated: Float[np.ndarray, " sample"]
) -> Float[np.ndarray, " sample"]:
    if noise.form.log:
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.abs(np.log(measured) - np.log(simulated))
    return np.abs(measured - simulated)


def _level(posterior: "Posterior", noise: Noise, output: str) -> float:
    name = f"noise.{output}"
    return posterior.mean(name) if name in posterior.columns else float(noise.level)  # type: ignore[arg-type]
