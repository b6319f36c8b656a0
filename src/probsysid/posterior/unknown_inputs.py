"""Unknown inputs and drifting parameters, given the data: `posterior.inputs()`."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri

from probsysid._internal.errors import InputError
from probsysid._internal.notebook import html
from probsysid._internal.validation import check_level
from probsysid.data.record import Record
from probsysid.model.latent_processes import LatentProcess
from probsysid.posterior.cards import inputs_card
from probsysid.posterior.diagnostics.constancy import Constancy
from probsysid.posterior.states import DrawnStates, drawn_states

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from probsysid.posterior.posterior import Posterior

SHORTEST = 3
"""Samples between which something can have changed."""

SEGMENTS = 8
"""Of a record, for a spectrum: half overlapping, they leave a standard error of a third for a single path."""


@dataclass(frozen=True)
class Change:
    """The time and the size of the largest change, each with the ends of an interval."""

    earliest: float
    time: float
    latest: float
    least: float
    size: float
    most: float
    relative: bool
    """Whether the size is a fraction of the value before."""

    @property
    def sentence(self) -> str:
        """Such as `it changes most at 42 s (41 to 43 s), by -9.8 % (-11 to -8.5 %)`."""
        factor, unit = (100.0, " %") if self.relative else (1.0, "")
        size, least, most = (f"{factor * value:.3g}" for value in (self.size, self.least, self.most))
        return (
            f"it changes most at {self.time:.4g} s ({self.earliest:.4g} to {self.latest:.4g} s), "
            f"by {size}{unit} ({least} to {most}{unit})"
        )


@dataclass(frozen=True, eq=False)
class UnknownInputs:
    """Unknown inputs, and parameters that drift, at the samples of a record."""

    time: Float[np.ndarray, " sample"]
    mean: dict[str, Float[np.ndarray, " sample"]]
    sd: dict[str, Float[np.ndarray, " sample"]]
    """Spread over parameters and, within each draw, over noise."""
    paths: dict[str, Float[np.ndarray, "draw sample"]]
    """One joint sample path per drawn particle."""
    truth: dict[str, Float[np.ndarray, " sample"]] = field(default_factory=dict)
    """Inputs of the record with the name of an unknown one: not used, but to be compared with."""
    units: dict[str, str] = field(default_factory=dict)
    positive: frozenset[str] = frozenset()
    """Parameters whose logarithm drifts."""
    drifts: tuple[Constancy, ...] = ()
    """Whether parameters that may drift do."""

    @property
    def sentences(self) -> tuple[str, ...]:
        """How close an input is to the truth where that is known, and whether and when a parameter drifts."""
        compared = [
            f"{name}: mean square error {self.nmse(name):.2g} % of its variance, "
            f"{100 * self.coverage(name):.0f} % of its samples in the 90 % band"
            for name in self.mean
            if name in self.truth and np.var(self.truth[name]) > 0
        ]
        found = {drift.name: drift for drift in self.drifts}
        return (*compared, *(self._of_drift(found[name]) for name in self.mean if name in found))

    def _of_drift(self, drift: Constancy) -> str:
        when = drift.verdict == "drifts" and len(self.time) >= SHORTEST
        return f"{drift.sentence}; {self.change(drift.name).sentence}" if when else drift.sentence

    def band(self, name: str, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Ends of an interval that holds `level` of the posterior at every sample: of the Gaussian with its moments, or
        of the log-normal distribution with them where the parameter is positive."""
        check_level("level", level)
        width = float(ndtri((1 + level) / 2))
        mean, sd = self.mean[name], self.sd[name]
        if name not in self.positive:
            return mean - width * sd, mean + width * sd
        spread = np.sqrt(np.log1p((sd / mean) ** 2))
        middle = mean * np.exp(-(spread**2) / 2)
        return middle * np.exp(-width * spread), middle * np.exp(width * spread)

    def change(self, name: str, level: float = 0.9) -> "Change":
        """When a parameter, or an input, changed most, and by how much: of the step that fits each path best."""
        check_level("level", level)
        paths = self.paths[name]
        samples = paths.shape[1]
        if samples < SHORTEST:
            raise InputError(f"{name!r} has {samples} samples; a change needs three.")
        before = np.arange(1, samples)
        sums = np.cumsum(paths, axis=1)
        left, right = sums[:, :-1] / before, (sums[:, -1:] - sums[:, :-1]) / (samples - before)
        places = np.argmax(before * (samples - before) * (right - left) ** 2, axis=1)
        draws = np.arange(len(paths))
        steps = right[draws, places] - left[draws, places]
        times = (self.time[places] + self.time[places + 1]) / 2
        levels = [(1 - level) / 2, 0.5, (1 + level) / 2]
        sizes = steps / left[draws, places] if name in self.positive else steps
        earliest, time, latest = np.quantile(times, levels).tolist()
        least, size, most = np.quantile(sizes, levels).tolist()
        return Change(earliest, time, latest, least, size, most, name in self.positive)

    def nmse(self, name: str) -> float:
        """Mean square error against the truth, in percent of its variance."""
        return float(100 * np.mean((self.mean[name] - self._truth(name)) ** 2) / np.var(self._truth(name)))

    def coverage(self, name: str, level: float = 0.9) -> float:
        """Share of samples whose true value lies in the band."""
        low, high = self.band(name, level)
        return float(np.mean((low <= self._truth(name)) & (self._truth(name) <= high)))

    def spectrum(self, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Frequencies in hertz, and the power density of the paths by Welch's method: median, 5 and 95 % quantiles."""
        import scipy.signal

        steps = np.diff(self.time)
        if len(steps) < SEGMENTS or np.ptp(steps) > 1e-6 * np.mean(steps):
            raise InputError("a spectrum needs equally spaced samples, and at least 9 of them.")
        length = min(len(self.time), max(8, 2 * len(self.time) // SEGMENTS))
        frequency, power = scipy.signal.welch(self.paths[name], 1 / np.mean(steps), nperseg=length, axis=1)
        median, low, high = np.quantile(power, [0.5, 0.05, 0.95], axis=0)
        return frequency, median, low, high

    def plot(self, path: Any = None) -> "Figure":
        """Each input and drift with its 90 % band and sample paths, and the truth where it is known."""
        from probsysid.report.figures.unknown_inputs import plot_inputs

        return plot_inputs(self, path)

    def _truth(self, name: str) -> np.ndarray:
        if name not in self.truth:
            raise InputError(f"the record has no input {name!r} to compare with.")
        return self.truth[name]

    def _repr_html_(self) -> str:
        return html(inputs_card(self))

    def __repr__(self) -> str:
        draws = len(next(iter(self.paths.values())))
        return f"UnknownInputs {', '.join(self.mean)}: {len(self.time)} samples, {draws} sample paths"


def inputs(posterior: "Posterior", record: int = 0, *, draws: int = 50, seed: int = 0) -> UnknownInputs:
    """Unknown inputs and drifting parameters on a training record: mean, sd and sample paths.

    Args:
        record: index of the training record.
        draws: of the posterior.  The moments of a process of several coordinates are those of the paths, so that they
            need some hundred draws.
        seed: of the draws.
    """
    problem = posterior.setup.problem
    if not problem.latent:
        raise InputError(
            "this posterior has neither unknown inputs nor drifts; name some with unknown=... or drifts=..."
        )
    drawn = drawn_states(posterior, record, draws, seed)
    found: dict[str, tuple[Any, Any, Any]] = {p.name: moments(drawn, p) for p in problem.latent.processes}
    compared = set(drawn.record.input_names) - set(problem.latent.measured)
    known = [p.name for p in problem.latent.processes if not p.drift and p.name in compared]
    units = posterior.settings.units
    return UnknownInputs(
        drawn.record.time,
        mean={name: mean for name, (mean, _, _) in found.items()},
        sd={name: sd for name, (_, sd, _) in found.items()},
        paths={name: paths for name, (_, _, paths) in found.items()},
        truth=_true_inputs(drawn.record, known),
        units={name: units[name] for name in found if name in units},
        positive=frozenset(p.name for p in problem.latent.processes if p.relative),
        drifts=posterior.identifiability.drifts,
    )


def _true_inputs(record: Record, names: list[str]) -> dict[str, Float[np.ndarray, " sample"]]:
    """Inputs of a record at its samples."""
    values = record.input_derivatives(0)[..., 0]
    return {name: values[:, record.input_names.index(name)] for name in names}


def moments(drawn: DrawnStates, process: LatentProcess) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, standard deviation and paths of one process."""
    places = [drawn.names.index(name) for name in process.components]
    values = {name: np.asarray(value) for name, value in drawn.values.items()}

    def of(states: np.ndarray) -> np.ndarray:
        components = dict(zip(process.components, np.moveaxis(states[:, places], 1, 0), strict=True))
        return np.asarray(process.value(components, values)) + np.zeros_like(states[:, 0])

    paths = of(drawn.path)
    if len(process.orders) != 1:
        return paths.mean(axis=1), paths.std(axis=1), paths.T
    mean, sd = of(drawn.mean), drawn.sd[:, places[0]]
    if process.relative:  # a logarithm is normal
        mean = mean * np.exp(sd**2 / 2)
        sd = mean * np.sqrt(np.expm1(sd**2))
    return mean.mean(axis=1), np.sqrt(np.mean(sd**2, axis=1) + mean.var(axis=1)), paths.T
