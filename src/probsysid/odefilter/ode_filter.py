"""The probabilistic ODE solver as an extended Kalman filter, for one particle: from one sample to the next.

The state is the solution with its derivatives under an integrated Wiener process prior (`iwp.py`).  It is conditioned
on the ODE at every step and on the data at every sample.  One sampling interval is

    restart    where an input may have jumped at the previous sample: re-initialise higher derivatives from the ODE
    advance    one or more integration steps, each: predict with the prior, condition on the ODE
    observe    condition on the data; the negative log predictive density is the energy

A restart is done when the interval is known, not at the sample before it: the slope of a linearly interpolated input is
then known, and an online run does exactly what a batch run does.

All quantities are in the scaled coordinates of `iwp.py` unless a name says otherwise.  Where the ODE is imposed
exactly, the highest derivatives are functions of the physical components and need no rows of the factor: the *free*
components are the others.  Exact conditioning thus lowers the rank explicitly, without a zero pivot to guard against.

`UnrolledFilter` writes the algebra out number by number, for small states; `ArrayFilter` uses matrices, for large ones.
`filter.py` maps either over particles and samples.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from probsysid._internal.array_types import Index, Numbers, Scalar, Vector
from probsysid.model.model import Model
from probsysid.model.particle import Particle
from probsysid.model.sparsity import SparsityPattern
from probsysid.odefilter.coloured_noise import coloured
from probsysid.odefilter.diffusion import Diffusion, Fixed, Given
from probsysid.odefilter.filter_state import FilterState, Rows, Values
from probsysid.odefilter.interval_data import IntervalData
from probsysid.odefilter.layout import Layout
from probsysid.odefilter.linearise import Linearisation
from probsysid.odefilter.rounding import above_rounding
from probsysid.odefilter.unrolled.gaussian import Innovation

NextState = Callable[..., FilterState]
"""What gives a state from a particle and a sample, and from the state before if there is one."""

FoldStep = Callable[[Index, FilterState], FilterState]
"""An integration step, by its number."""

StepItems = tuple[Numbers, Numbers]
"""Inputs and unit variances of all integration steps of an interval, or of one."""

ScanStep = Callable[[FilterState, StepItems], tuple[FilterState, PyTree]]
"""An integration step that also returns what is to be kept of it."""


class Prediction(NamedTuple):
    """Before a step is conditioned on the ODE, all components of"""

    mean: Values
    data_part: Values
    """None where it is not tracked."""


class LinearisedODE(NamedTuple):
    """The vector field at a step as the filter sees it: affine."""

    mean: Values
    """The predicted mean of all components, to which the values belong."""
    values: Values
    jacobian: Rows


@dataclass(frozen=True)
class ODEFilter(ABC):
    """A model together with every choice that determines the filter's program; compiled programs are cached by it."""

    unrolled: ClassVar[bool]
    """Whether the algebra is written out number by number, and so vectorised over particles only."""

    model: Model
    layout: Layout
    linearisation: Linearisation
    diffusion: Diffusion
    ode_noise: float = 0.0
    """Standard deviation of the ODE residual in physical units; 0 imposes the ODE exactly."""
    joint: bool = True
    """Whether the state is conditioned on the data."""
    restarts: bool = False
    """Whether higher derivatives are re-initialised at the start of every interval because inputs jump at samples."""

    @cached_property
    def free(self) -> tuple[int, ...]:
        """Components with rows in the factor, physical ones first."""
        layout = self.layout
        return layout.physical + (layout.highest if self.ode_noise else ()) + layout.higher

    @cached_property
    def _slopes_used(self) -> SparsityPattern:
        """Entries of the vector field's Jacobian that the filter uses."""
        pattern, layout = self.model.dynamics_sparsity, self.layout
        if not self.linearisation.blocks:
            return pattern
        own = [[layout.coordinate[j] == c for j in layout.physical] for c in range(len(layout.orders))]
        return tuple(tuple(a and b for a, b in zip(row, of, strict=True)) for row, of in zip(pattern, own, strict=True))

    @property
    def _others(self) -> tuple[int, ...]:
        """The free components that are not physical."""
        return self.free[len(self.layout.physical) :]

    @property
    def _tracks_data(self) -> bool:
        """Whether data reach the residuals that calibrate the diffusion, so that their part must be subtracted.

        A restart computes all other components from the physical ones, and so leaves nothing to subtract.
        """
        known = isinstance(self.diffusion, Fixed | Given)
        return self.joint and not self.restarts and bool(self._others) and not known

    # Initialisation

    @abstractmethod
    def start(self, particle: Particle, sample: IntervalData) -> FilterState:
        """The Gaussian at the first sample, before its data: Taylor-mode initialisation of all derivatives."""

    @abstractmethod
    def _restart(self, state: FilterState, particle: Particle, sample: IntervalData) -> FilterState:
        """Re-initialise higher derivatives from the ODE at the start of the interval, given the physical components."""

    # One interval

    def interval(self, state: FilterState, particle: Particle, sample: IntervalData) -> FilterState:
        """From just after the previous sample's data to just before this one's."""
        state = self.depart(state, particle, sample)

        def step(j: Index, state: FilterState) -> FilterState:
            return self.advance(state, particle, sample, sample.grid[j], sample.unit[j])

        return self._fold_steps(state, sample, step)

    def depart(self, state: FilterState, particle: Particle, sample: IntervalData) -> FilterState:
        """The state at the start of the interval: in the units of its steps, and restarted if inputs may jump; coloured
        noise already as it will be at the end."""
        if sample.rescale is not None:
            state = self._rescale(state, sample.rescale)
        if self.restarts:
            state = self._restart(state, particle, sample)
        return self._age_noise(state, particle, sample) if coloured(particle.noise) else state

    @abstractmethod
    def _age_noise(self, state: FilterState, particle: Particle, sample: IntervalData) -> FilterState:
        """Coloured noise over the interval (`coloured_noise.py`)."""

    @abstractmethod
    def _rescale(self, state: FilterState, rescale: Numbers) -> FilterState:
        """Change of units where the step length changes."""

    @abstractmethod
    def _fold_steps(self, state: FilterState, sample: IntervalData, step: FoldStep) -> FilterState:
        """Apply `step` for each integration step of the interval."""

    @abstractmethod
    def scan_steps(self, step: ScanStep, state: FilterState, items: StepItems) -> tuple[FilterState, PyTree]:
        """`lax.scan` over the integration steps of an interval."""

    # One integration step

    def advance(
        self, state: FilterState, particle: Particle, sample: IntervalData, inputs: Numbers, unit: Numbers
    ) -> FilterState:
        """One integration step, and the process noise of that time."""
        state, _, _ = self._integrate(state, particle, sample, inputs, unit)
        return state if particle.process_noise is None else self._disturb(state, particle, sample)

    def advance_traced(
        self, state: FilterState, particle: Particle, sample: IntervalData, inputs: Numbers, unit: Numbers
    ) -> tuple[FilterState, tuple[PyTree, ...] | None]:
        """As `advance`; with process noise also what the smoother needs to go back: moments before the noise, its
        factor, and mean and rows of the prediction."""
        integrated, _, _ = self._integrate(state, particle, sample, inputs, unit)
        if particle.process_noise is None:
            return integrated, None
        noise = self._disturbance(integrated, particle, sample)
        steps = self.moments(integrated, sample), noise, *self._predicted(state, integrated, sample)
        return self._disturb(integrated, particle, sample), steps

    def _integrate(
        self,
        state: FilterState,
        particle: Particle,
        sample: IntervalData,
        inputs: Numbers,
        unit: Numbers,
        along: LinearisedODE | None = None,
    ) -> tuple[FilterState, LinearisedODE, Rows]:
        """One integration step: predict, linearise, calibrate the diffusion, condition on the ODE.  Also returns the
        linearised ODE, which is `along` if that is given, and the rows of the prediction.

        Data that contradict the model move the state at every sample.  A change of the physical components takes the
        filter to another solution of the ODE, whose integration error is no larger for it; but it also moves the higher
        derivatives off that solution, and the residuals at the next steps are then as large as the misfit.  That part
        of the derivatives is carried along as the `data_part` and subtracted from the residuals that calibrate the
        diffusion, which thus measures the integration alone.

        An iterated linearisation (iterated EKF) is renewed at the corrected mean.  The diffusion is then calibrated
        again, on the residual of the last linearisation: the residual at a prediction that is far off says little about
        the step.
        """
        scales = sample.scales
        predicted = Prediction(self._predict_mean(state), self._predict_data_part(state))
        if along is None:
            values, jacobian = self._linearise(particle, predicted.mean, inputs, scales)
        else:
            values, jacobian = self._values_along(along, predicted.mean), along.jacobian
        memory, variance = self._calibrate(state, sample, predicted, values, jacobian, unit)
        if particle.process_noise is not None:
            variance = above_rounding(self.layout, state, variance)
        rows = self._rows(state, particle, sample, variance, jacobian)
        factor, mean, data_part = self._condition_on_ode(rows, predicted, values, jacobian, scales)
        iterations = self.linearisation.iterations if along is None else 0
        for k in range(iterations):
            values, jacobian = self._relinearise(particle, predicted.mean, mean, inputs, scales)
            if k == iterations - 1:
                memory, variance = self._calibrate(state, sample, predicted, values, jacobian, unit)
                if particle.process_noise is not None:
                    variance = above_rounding(self.layout, state, variance)
            rows = self._rows(state, particle, sample, variance, jacobian)
            factor, mean, data_part = self._condition_on_ode(rows, predicted, values, jacobian, scales)
        state = self._updated(factor, mean, jacobian, memory, variance, data_part)
        return state, LinearisedODE(predicted.mean, values, jacobian), rows

    def _rows(
        self, state: FilterState, particle: Particle, sample: IntervalData, variance: Values, jacobian: Rows
    ) -> Rows:
        """Rows of the prediction; with process noise as the linearised ODE carries them (`process_noise.py`)."""
        if particle.process_noise is None:
            return self._predict_rows(state, variance)
        return self._predict_rows_along_ode(state, variance, jacobian, sample.scales, sample.step)

    @abstractmethod
    def _predict_mean(self, state: FilterState) -> Values:
        """A m."""

    @abstractmethod
    def _predict_data_part(self, state: FilterState) -> Values:
        """A times the data part, for all components; None where it is not tracked."""

    @abstractmethod
    def _predict_rows(self, state: FilterState, variance: Values) -> Rows:
        """[A L, sigma sqrt(Q)], a factor of A P A' + sigma^2 Q."""

    @abstractmethod
    def _predict_rows_along_ode(
        self, state: FilterState, variance: Values, jacobian: Rows, scales: Numbers, step: Scalar
    ) -> Rows:
        """The same, but that physical components are carried on by the linearised ODE, together with what it gives for
        the others; only the rest of the others, the integration error, is extrapolated by the prior."""

    @abstractmethod
    def _linearise(self, particle: Particle, mean: Values, inputs: Vector, scales: Numbers) -> tuple[Values, Rows]:
        """Value f and Jacobian J of the vector field at a mean."""

    @abstractmethod
    def _relinearise(
        self, particle: Particle, mean: Values, corrected: Values, inputs: Vector, scales: Numbers
    ) -> tuple[Values, Rows]:
        """The vector field linearised at the corrected mean: f(corrected) + J (mean - corrected), and J.

        Where a step is long, the predicted mean may be so far off that the Jacobian there has little to do with the
        motion.
        """

    @abstractmethod
    def _values_along(self, along: LinearisedODE, mean: Values) -> Values:
        """Of a vector field that was linearised elsewhere, at this mean."""

    @abstractmethod
    def _residual_energy(self, rows: Rows, ode: LinearisedODE, scales: Numbers) -> Scalar:
        """Minus the log density of the ODE residual being zero, given the rows of the prediction; up to a constant, in
        scaled units."""

    @abstractmethod
    def _calibrate(
        self,
        state: FilterState,
        sample: IntervalData,
        predicted: "Prediction",
        values: Values,
        jacobian: Rows,
        unit: Numbers,
    ) -> tuple[list[Values], Values]:
        """Memory of the diffusion estimators and each coordinate's squared diffusion, given the step's residuals."""

    @abstractmethod
    def _condition_on_ode(
        self, rows: Rows, predicted: "Prediction", values: Values, jacobian: Rows, scales: Numbers
    ) -> tuple[Rows, Values, Values]:
        """Rows of the free components, the mean of all and the data part, given that the linearised ODE holds.

        The measurement model is z = x^(n) - f - J (x - m), observed as zero up to `ode_noise`.
        """

    @abstractmethod
    def _updated(
        self, factor: Rows, mean: Values, jacobian: Rows, memory: list[Values], variance: Values, data_part: Values
    ) -> FilterState:
        """The state after a step."""

    # Process noise

    @abstractmethod
    def _predicted(self, state: FilterState, arrived: FilterState, sample: IntervalData) -> tuple[Array, Array]:
        """Mean and rows of all components, and of coloured noise, before a step was conditioned on the ODE, in physical
        units: (D, 2 D).  The first columns are those of the factor in `moments`."""

    @abstractmethod
    def _disturb(self, state: FilterState, particle: Particle, sample: IntervalData) -> FilterState:
        """Add the process noise of one step (`process_noise.py`)."""

    @abstractmethod
    def _disturbance(self, state: FilterState, particle: Particle, sample: IntervalData) -> Array:
        """The factor of that noise for all components in physical units, with rows of zeros for coloured noise:
        (D, column)."""

    # Data

    @abstractmethod
    def observe(
        self, state: FilterState, particle: Particle, sample: IntervalData, scores: bool = True
    ) -> tuple[FilterState, Scalar, list[Innovation]]:
        """Condition on the sample's outputs.  Returns the state, the energy and each output's innovation, which without
        `scores` is worthless where the noise is not plainly Gaussian."""

    @abstractmethod
    def before_jump(self, observed: FilterState, arrived: FilterState) -> FilterState:
        """The state after the data, with the highest derivatives as they were before the inputs jumped.

        The transition that led to the sample knows only these, so the smoother needs them.
        """

    # The state for loops and storage

    @abstractmethod
    def structure(
        self, first: NextState, step: NextState, particle: Particle, sample: IntervalData
    ) -> tuple[PyTree, FilterState]:
        """The sparsity pattern that `fill` takes, and the tree and shapes of a filled state.

        `first(particle, sample)` is the first state and `step(state, particle, sample)` the next one.
        """

    @abstractmethod
    def fill(self, state: FilterState, pattern: PyTree) -> FilterState:
        """The state as a loop carries it: the same structure after every step."""

    @abstractmethod
    def moments(self, state: FilterState, sample: IntervalData) -> tuple[Array, Array]:
        """Mean and square factor of all components in physical units, and then of coloured noise."""

    def physical_moments(self, state: FilterState, sample: IntervalData) -> tuple[Array, Array]:
        """Means and standard deviations of the physical components."""
        mean, factor = self.moments(state, sample)
        kept = np.array(self.layout.physical)
        return mean[kept], jnp.sqrt(jnp.sum(factor**2, axis=1))[kept]

    @abstractmethod
    def pack(self, state: FilterState, template: FilterState) -> Array:
        """A filled state as one array that begins with the mean; a particle axis, if there is one, is last.

        `template` has the state's tree and shapes, without a particle axis.
        """

    @abstractmethod
    def unpack(self, packed: Numbers, template: FilterState) -> FilterState:
        """The inverse of `pack`."""
