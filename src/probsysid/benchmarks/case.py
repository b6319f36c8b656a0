"""What a case study is: a model, the record to train on, and the ways to score what was learnt."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from probsysid.data.record import Record
from probsysid.model.model import Model
from probsysid.odefilter.solver import Solver
from probsysid.posterior.simulate import Scores, simulate
from probsysid.smc.options import Sampler

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from probsysid.benchmarks.run import Outcome

Parameters = Mapping[str, Float[np.ndarray, " particle"]]

BLOCK = 64
"""Particles simulated at a time: long test records of all particles at once would not fit into memory."""


NEVER = 1e-12
"""Of `Sampler.bridge`: the paper does not temper samples that leave few particles."""


@dataclass(frozen=True)
class Published:
    """A root mean square error as printed: over particles the smallest, the mean and the largest."""

    min: float
    mean: float
    max: float


@dataclass(frozen=True, eq=False)
class ScoringProtocol:
    """A way to score parameters: simulate a test record without looking at its outputs, compare.

    Args:
        name: what tables and files call it.
        record: the test record; its one output is what simulations are compared with.
        predict: parameters of some particles -> that output, (particle, sample).
        skip: samples at the start that are simulated and not scored.
        baseline: what somebody without a model would predict.
        paper: the paper's figures.
        zoom: seconds that its picture enlarges.
    """

    name: str
    record: Record
    predict: Callable[[Parameters], Float[np.ndarray, "particle sample"]]
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
        """Error of the trivial prediction: the mean of the output, unless the protocol has a better one."""
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

    def fit_percent(self, rmse: float) -> float:
        """100 (1 - NRMSE): 100 is perfect, 0 is as good as the mean of the output."""
        return float(100 * (1 - rmse / np.std(self.measured)))


def free_run(
    model: Model, record: Record, steps: int, initial: Mapping[str, float] | None = None
) -> Callable[[Parameters], Float[np.ndarray, "particle sample"]]:
    """A prediction by simulation from a known state, zero where nothing else is said."""
    start = [(initial or {}).get(name, 0.0) for name in model.physical_names]

    def predict(parameters: Parameters) -> Float[np.ndarray, "particle sample"]:
        given = {name: np.asarray(parameters[name]) for name in model.parameter_names}
        count = len(next(iter(given.values())))
        states = np.repeat(np.array(start)[:, None], count, axis=1)
        return simulate(model, given, states, record, steps)[0][record.output_names[0]]

    return predict


@dataclass(frozen=True, eq=False)
class LeastSquaresFit:
    """A least-squares problem: what was measured, and what a finely integrated model says for some parameters."""

    about: str
    measured: Float[np.ndarray, " sample"]
    predict: Callable[[Parameters], Float[np.ndarray, "particle sample"]]


@dataclass(frozen=True, eq=False)
class Method:
    """The settings of one way to identify; `initial` where it differs from the study's."""

    solver: Solver
    sampler: Sampler
    noise: Mapping[str, Any] = field(default_factory=dict)
    model_error: Mapping[str, Any] = field(default_factory=dict)
    initial: Mapping[str, Any] | None = None


@dataclass(frozen=True, eq=False)
class FigureSettings:
    """What the pictures of a study show.

    Args:
        states: components to draw, from the training record's first `samples`.
        zoom: seconds to enlarge.
        window: samples over which degeneracy is drawn.
        measured: component -> output that measures it.
        truth: true values of components, where known.
        units: of the components.
        apart: prior and posterior in panels of their own.
        deviations: draws of the filtered output less their mean, where the output's own range would hide them.
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
        model, record, priors, initial: what is identified, from what.
        methods: settings by name, `default` and `paper`.
        protocols: the scores.
        equation: the model in one line, for reports.
        truth: the true values, where there are any.
        reference: values published by others, for comparison.
        fits: by protocol, the least-squares fit whose score is the limit of what the model can do there.
        guess: where those fits start.
        view: what the pictures show.
        training: the output on the training record in free run, for some parameters.
        figures: pictures of this case alone, by file name.
    """

    case: str
    variant: str
    model: Model
    record: Record
    priors: Mapping[str, Any]
    initial: Mapping[str, Any]
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

    @property
    def title(self) -> str:
        return f"{self.case}, {self.variant}"
