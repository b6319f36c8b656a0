"""Case studies: a model, a training record, the methods to identify it with, and the protocols that score it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from probsysid.data.record import Record
from probsysid.model.model import Model
from probsysid.model.priors import Prior
from probsysid.model.varying import Variation
from probsysid.odefilter.solver import Solver
from probsysid.posterior.predict import Band
from probsysid.posterior.simulate import Scores, simulate
from probsysid.smc.options import Sampler

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from probsysid.benchmarks.candidates import Candidates
    from probsysid.benchmarks.run import Outcome

Parameters = Mapping[str, Float[np.ndarray, " particle"]]

BLOCK = 64
"""Particles simulated at a time: simulations of all particles over long test records do not fit into memory."""

NEVER = 1e-12
"""A `Sampler.bridge` that never tempers: the paper does not temper samples that leave few particles."""


@dataclass(frozen=True)
class Published:
    """A published root mean square error: minimum, mean and maximum over particles."""

    min: float
    mean: float
    max: float


@dataclass(frozen=True, eq=False)
class ScoringProtocol:
    """A free run over a test record, compared with its output.

    Args:
        name: its name in tables and files.
        record: the test record, with one output.
        predict: parameters of some particles -> the simulated output, (particle, sample); given process noise as well,
            by coordinate, with white-noise forces.
        skip: samples at the start that are simulated but not scored.
        baseline: a prediction without a model.
        paper: the paper's figures.
        zoom: seconds that its figure enlarges.
    """

    name: str
    record: Record
    predict: Callable[..., Float[np.ndarray, "particle sample"]]
    skip: int = 0
    baseline: Float[np.ndarray, " sample"] | None = None
    paper: Published | None = None
    zoom: float = 0.2

    @cached_property
    def output(self) -> str:
        """Name of the compared output."""
        return self.record.output_names[0]

    @property
    def unit(self) -> str:
        return self.record.units.get(self.output, "")

    @cached_property
    def measured(self) -> Float[np.ndarray, " sample"]:
        """The scored part of the output."""
        return np.asarray(self.record.outputs[self.output])[self.skip :]

    @cached_property
    def baseline_rmse(self) -> float:
        """Error of the trivial prediction: the protocol's baseline, or the mean of the output."""
        guess = np.mean(self.measured) if self.baseline is None else self.baseline[self.skip :]
        return float(np.sqrt(np.mean((self.measured - guess) ** 2)))

    def rmse(self, parameters: Parameters, weights: Float[np.ndarray, " particle"]) -> Scores:
        """Root mean square error of each particle."""
        count = len(weights)
        values = []
        for first in range(0, count, BLOCK):
            part = {name: np.asarray(value)[first : first + BLOCK] for name, value in parameters.items()}
            error = self.predict(part)[:, self.skip :] - self.measured
            values.append(np.sqrt(np.mean(error**2, axis=1)))
        return Scores(np.concatenate(values), weights)

    def band(
        self,
        parameters: Parameters,
        process_noise: Parameters,
        noise: Float[np.ndarray, " particle"],
        seed: int = 0,
        level: float = 0.9,
    ) -> Band:
        """Predicted measurements over the scored part, from equally weighted particles."""
        values = self.predict(parameters, process_noise)[:, self.skip :]
        mean = values.mean(axis=0)
        noisy = values + noise[:, None] * np.random.default_rng([seed, 4]).standard_normal(values.shape)
        low, high = np.quantile(noisy, [(1 - level) / 2, (1 + level) / 2], axis=0)
        return Band(mean, np.sqrt(values.var(axis=0) + np.mean(noise**2)), low, high)

    def fit_percent(self, rmse: float) -> float:
        """100 (1 - NRMSE): 100 is perfect, 0 as good as the mean of the output."""
        return float(100 * (1 - rmse / np.std(self.measured)))


def free_run(
    model: Model, record: Record, steps: int, initial: Mapping[str, float] | None = None
) -> Callable[..., Float[np.ndarray, "particle sample"]]:
    """A `ScoringProtocol.predict` that simulates from a known initial state, zero by default."""
    start = [(initial or {}).get(name, 0.0) for name in model.physical_names]

    def predict(
        parameters: Parameters, process_noise: Parameters | None = None
    ) -> Float[np.ndarray, "particle sample"]:
        given = {name: np.asarray(parameters[name]) for name in model.parameter_names}
        count = len(next(iter(given.values())))
        states = np.repeat(np.array(start)[:, None], count, axis=1)
        found = simulate(model, given, states, record, steps, process_noise or None)[0]
        return found[record.output_names[0]]

    return predict


@dataclass(frozen=True, eq=False)
class LeastSquaresFit:
    """A least-squares problem: a measured output, and the finely integrated model as a function of parameters."""

    about: str
    measured: Float[np.ndarray, " sample"]
    predict: Callable[[Parameters], Float[np.ndarray, "particle sample"]]


@dataclass(frozen=True, eq=False)
class Method:
    """The settings of an identification method; `initial` only if it differs from the study's."""

    solver: Solver
    sampler: Sampler
    noise: Mapping[str, Prior] = field(default_factory=dict)
    process_noise: Mapping[str, Prior] = field(default_factory=dict)
    initial: Mapping[str, Prior] | None = None
    varies: Mapping[str, Variation] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class FigureSettings:
    """What the figures of a study show.

    Args:
        states: components to draw, from the training record's first `samples`.
        zoom: interval to enlarge, in seconds.
        window: samples over which degeneracy is drawn.
        measured: component -> the output that measures it.
        truth: true values of components, if known.
        units: of the components.
        apart: prior and posterior in separate panels.
        deviations: draw the filtered output minus its mean, if its range would hide the spread.
    """

    states: tuple[str, ...]
    samples: int
    zoom: tuple[float, float]
    window: tuple[int, int]
    measured: Mapping[str, str]
    units: Mapping[str, str]
    truth: Mapping[str, Float[np.ndarray, " sample"]] = field(default_factory=dict)
    apart: bool = False
    deviations: bool = False


@dataclass(frozen=True, eq=False)
class CaseStudy:
    """One model of one case, ready to run.

    Args:
        case, variant: the names on the command line.
        model, record, priors, initial: the identification problem.
        methods: settings by name, `default` and `paper`.
        protocols: the tests.
        equation: the model in one line, for reports.
        truth: the true parameters, if known.
        reference: parameters published by others, for comparison.
        fits: by protocol, the least-squares fit whose score is the limit of the model there.
        guess: starting point of those fits.
        view: settings of the figures.
        training: free run over the training record as a function of parameters.
        figures: further figures of this case, by file name.
        candidates: what the terms of the model are chosen from, before it is run.
    """

    case: str
    variant: str
    model: Model
    record: Record
    priors: Mapping[str, Prior]
    initial: Mapping[str, Prior]
    methods: Mapping[str, Method]
    protocols: tuple[ScoringProtocol, ...]
    equation: str
    fits: Mapping[str, LeastSquaresFit]
    guess: Mapping[str, float]
    view: FigureSettings
    training: Callable[[Parameters], Float[np.ndarray, "particle sample"]] | None = None
    truth: Mapping[str, float] = field(default_factory=dict)
    reference: Mapping[str, float] = field(default_factory=dict)
    figures: "Callable[[Outcome], dict[str, Figure]] | None" = None
    candidates: "Candidates | None" = None

    @property
    def title(self) -> str:
        return f"{self.case}, {self.variant}"
