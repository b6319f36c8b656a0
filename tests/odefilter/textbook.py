"""The filter as a textbook has it: one particle, physical units, covariance matrices.

Written from the equations and independent of the package, for any type of number: doubles, or mpmath's.  With 50 digits
the covariance form has digits to waste, and its results are exact for our purposes.

    predict      m <- A m,  P <- A P A' + Q                                                     (paper, eq. IWP_2)
    restart      where inputs jump at samples: all derivatives anew from the physical components
    the ODE      z = C m - f(m),  S = H P H' + R,  K = P H' / S,  m <- m - K z,  P <- P - K S K'     (eq. EKF0)
    diffusion    z^2 / s for each coordinate, s its variance for unit diffusion                 (section Calibration)
    white force  d x^(n-1) = f dt + s dW: P <- P + s^2 integral of phi phi', phi the response of the state to a kick
    data part    what data have added to z: e <- A e, z_e = H e, e <- e - K z_e, and e <- e + change at the data,
                 less what a solution of the linearised ODE through the physical components of e would have
    the data     v = y - g(m),  S = G P G' + r^2,  energy = log|2 pi S| / 2 + v' S^-1 v / 2      (eq. energy)
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import mpmath
import numpy as np

from probsysid.odefilter.diffusion import WINDOW, Dynamic, Fixed, QuasiMLE
from probsysid.odefilter.linearise import EKF1
from tests.odefilter.cases import Case
from tests.odefilter.differentiate import gradients, solution_derivatives


@dataclass(frozen=True)
class Numbers:
    """A type of number and the functions that arithmetic does not give."""

    convert: Callable[[Any], Any]
    log: Callable[[Any], Any]
    sqrt: Callable[[Any], Any]
    exp: Callable[[Any], Any]
    pi: Any

    def array(self, values: Any) -> np.ndarray:
        values = np.asarray(values)
        result = np.empty(values.shape, dtype=object)
        for index, value in np.ndenumerate(values):
            result[index] = self.convert(value)
        return result

    def zeros(self, *shape: int) -> np.ndarray:
        return self.array(np.zeros(shape))


DOUBLES = Numbers(float, math.log, math.sqrt, math.exp, math.pi)


def digits(count: int) -> Numbers:
    """Numbers of so many decimal digits."""
    context = mpmath.mp.clone()
    context.dps = count

    def convert(x: Any) -> Any:
        return context.mpf(x.item() if isinstance(x, np.generic | np.ndarray) else x)

    return Numbers(convert, context.log, context.sqrt, context.exp, +context.pi)


def transition(q: int, h: Any) -> np.ndarray:
    """A(h)."""
    one = h / h
    return np.array(
        [[h ** (j - i) / math.factorial(j - i) if j >= i else 0 * one for j in range(q + 1)] for i in range(q + 1)],
        dtype=object,
    )


def process(q: int, h: Any) -> np.ndarray:
    """Q(h) for unit diffusion."""

    def entry(i: int, j: int) -> Any:
        power = 2 * q + 1 - i - j
        return h**power / (power * math.factorial(q - i) * math.factorial(q - j))

    return np.array([[entry(i, j) for j in range(q + 1)] for i in range(q + 1)], dtype=object)


def block_diagonal(blocks: Sequence[np.ndarray], numbers: Numbers) -> np.ndarray:
    result = numbers.zeros(*(sum(len(block) for block in blocks),) * 2)
    start = 0
    for block in blocks:
        result[start : start + len(block), start : start + len(block)] = block
        start += len(block)
    return result


def cholesky(matrix: np.ndarray, numbers: Numbers) -> np.ndarray:
    lower = numbers.zeros(*matrix.shape)
    for i in range(len(matrix)):
        for j in range(i + 1):
            rest = matrix[i, j] - sum(lower[i, k] * lower[j, k] for k in range(j))
            lower[i, j] = numbers.sqrt(rest) if i == j else rest / lower[j, j]
    return lower


def forward(lower: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve lower @ x = right."""
    result = right.copy()
    for i in range(len(lower)):
        result[i] = (result[i] - sum(lower[i, k] * result[k] for k in range(i))) / lower[i, i]
    return result


class Moments(NamedTuple):
    """Mean and covariance of all components."""

    mean: np.ndarray
    covariance: np.ndarray


def condition(
    state: Moments, rows: np.ndarray, residual: np.ndarray, noise: np.ndarray, numbers: Numbers
) -> tuple[Moments, Any]:
    """Condition on rows @ x missing its value by `residual`, up to noise.  Also the negative log density."""
    innovation = rows @ state.covariance @ rows.T + np.diag(noise)
    lower = cholesky(innovation, numbers)
    gain = forward(lower, rows @ state.covariance)  # K S K' = gain' gain
    white = forward(lower, residual)
    energy = sum((numbers.log(2 * numbers.pi) + w * w) / 2 + numbers.log(lower[i, i]) for i, w in enumerate(white))
    return Moments(state.mean - gain.T @ white, state.covariance - gain.T @ gain), energy


class UnitVariances:
    """Variance of each ODE residual of a zeroth-order solver without data, for unit diffusion, step by step."""

    def __init__(self, case: Case, numbers: Numbers):
        self.case, self.numbers = case, numbers
        self.restart()

    def restart(self) -> None:
        self.covariances = [self.numbers.zeros(q + 1, q + 1) for q in self.case.smoothness]

    def step(self, h: Any) -> list[Any]:
        result = []
        for c, (n, q) in enumerate(zip(self.case.model.orders, self.case.smoothness, strict=True)):
            a = transition(q, h)
            predicted = a @ self.covariances[c] @ a.T + process(q, h)
            result.append(predicted[n, n])
            column = predicted[:, n]
            self.covariances[c] = predicted - np.outer(column, column) / predicted[n, n]
        return result


class Estimator:
    """The squared diffusion of one coordinate."""

    def __init__(self, kind: Any, coordinate: int, guess: Any, numbers: Numbers):
        self.kind, self.coordinate, self.numbers = kind, coordinate, numbers
        self.total, self.weight = guess, numbers.convert(1)  # the guess counts as one observation
        self.observations: list[Any] = []

    def update(self, residual: Any, unit: Any, local: Any, steps: int = 1) -> Any:
        """With the newest residual; there are `steps` of them per sample."""
        estimate = self.mean(residual, unit, local)
        self.observations.append(residual**2 / unit)
        floor = getattr(self.kind, "floor", 0.0)
        return max(estimate, self.numbers.convert(floor) * self.window(round(WINDOW) * steps)) if floor else estimate

    def window(self, size: int) -> Any:
        """The mean over the current block of observations and the whole one before."""
        begun = (len(self.observations) - 1) // size * size
        recent = self.observations[max(begun - size, 0) :]
        return sum(recent[1:], start=recent[0]) / len(recent)

    def mean(self, residual: Any, unit: Any, local: Any) -> Any:
        if isinstance(self.kind, Fixed):
            scale = self.kind.scale
            return self.numbers.convert(scale[self.coordinate] if isinstance(scale, tuple) else scale) ** 2
        if isinstance(self.kind, Dynamic) and self.kind.memory == 0:
            return residual**2 / local
        keep = self.numbers.convert(1)
        if isinstance(self.kind, Dynamic):
            keep = self.numbers.exp(-1 / self.numbers.convert(self.kind.memory))
        else:
            assert isinstance(self.kind, QuasiMLE)
        self.total = keep * self.total + residual**2 / unit
        self.weight = keep * self.weight + 1
        return self.total / self.weight


class IBISState(NamedTuple):
    """What the filter found."""

    energy: list[Any]
    """Of each sample."""
    points: list[Moments]
    """After the first sample, and after every step (and its data, at a sample)."""
    variance: list[list[Any]]
    """Squared diffusion of each step, by coordinate."""


class Textbook:
    """The filter for one particle of a case."""

    def __init__(self, case: Case, particle: int, numbers: Numbers = DOUBLES):
        self.case, self.numbers = case, numbers
        orders, smoothness = case.model.orders, case.smoothness
        offsets = np.concatenate([[0], np.cumsum([q + 1 for q in smoothness])])
        self.size = int(offsets[-1])
        self.physical = [int(o) + i for o, n in zip(offsets, orders, strict=False) for i in range(n)]
        self.highest = [int(o) + n for o, n in zip(offsets, orders, strict=False)]
        pick = lambda values: [numbers.convert(v) for v in np.asarray(values)[..., particle]]  # noqa: E731
        self.parameters = SimpleNamespace(
            **{name: numbers.convert(np.asarray(v)[..., particle]) for name, v in case.parameters.items()}
        )
        self.noise = pick(case.noise)
        self.initial = pick(case.initial_mean), pick(case.initial_sd)
        self.process_noise = None if case.process_noise is None else pick(case.process_noise)
        self.full = isinstance(case.linearisation, EKF1)
        grid, inputs = case.input_arrays
        self.grid, self.inputs = numbers.array(grid), numbers.array(inputs)
        self.estimators = [Estimator(case.diffusion, c, guess, numbers) for c, guess in enumerate(self.guesses())]
        self.unit = UnitVariances(case, numbers)
        self.slopes = numbers.zeros(len(self.highest), len(self.physical))
        self.data_part = numbers.zeros(self.size)

    def field(self, physical: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
        model = self.case.model
        s = SimpleNamespace(**dict(zip(model.physical_names, physical, strict=True)))
        u = SimpleNamespace(**dict(zip(model.input_names, inputs, strict=True)))
        values = model.dynamics(s, u, self.parameters)
        return [values[name] for name in model.coordinates]

    def measured(self, seen: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
        model = self.case.model
        s = SimpleNamespace(**dict(zip((*model.physical_names, *model.highest_names), seen, strict=True)))
        u = SimpleNamespace(**dict(zip(model.input_names, inputs, strict=True)))
        values = model.outputs(s, u, self.parameters)
        return [values[name] for name in model.output_names]

    def guesses(self) -> list[Any]:
        """Squared diffusions from the two derivatives that follow the prior's, at the initial mean: d^2 h, averaged."""
        orders, smoothness = self.case.model.orders, self.case.smoothness
        h = self.numbers.convert(self.case.steps[0])
        further = [q + 2 for q in smoothness]
        inputs = [list(values) for values in self.inputs[0]]
        derivatives = solution_derivatives(self.field, orders, further, self.initial[0], inputs)
        ends = np.cumsum([q + 1 for q in further]) - 1
        return [h * (derivatives[end - 1] ** 2 + (h * derivatives[end]) ** 2) / 2 for end in ends]

    def complete(self, mean: Sequence[Any], covariance: np.ndarray, inputs: np.ndarray) -> Moments:
        """All components from the physical ones, which the ODE and its derivatives determine."""
        orders, smoothness = self.case.model.orders, self.case.smoothness

        def derivatives(physical: list[Any]) -> list[Any]:
            return solution_derivatives(self.field, orders, smoothness, physical, [list(u) for u in inputs])

        values, slopes = gradients(derivatives, list(mean))
        if not self.full:
            rest = [i for i in range(self.size) if i not in self.physical]
            slopes[rest] = self.numbers.zeros(len(rest), len(self.physical))
        self.slopes = slopes[self.highest]
        if self.process_noise is not None:  # as every later step has it: the Jacobian's rate of change is neglected
            units = self.numbers.array(np.eye(len(self.physical)))
            slopes = np.stack([self.along(unit) for unit in units], axis=1)
        return Moments(np.array(values, dtype=object), slopes @ covariance @ slopes.T)

    def start(self) -> Moments:
        mean, sd = self.initial
        return self.complete(mean, np.diag(np.array([s * s for s in sd], dtype=object)), self.inputs[0])

    def restart(self, state: Moments, inputs: np.ndarray) -> Moments:
        self.unit.restart()
        self.data_part = self.numbers.zeros(self.size)
        block = state.covariance[np.ix_(self.physical, self.physical)]
        return self.complete(state.mean[self.physical], block, inputs)

    def jump(self, state: Moments, inputs: np.ndarray) -> Moments:
        """The highest derivatives as the ODE has them after the inputs have jumped, all else unchanged."""
        if self.case.ode_noise:
            return state
        values, slopes = gradients(lambda x: self.field(x, list(inputs)), list(state.mean[self.physical]))
        mean, change = state.mean.copy(), self.numbers.array(np.eye(self.size))
        mean[self.highest] = np.array(values, dtype=object)
        change[self.highest] = self.numbers.zeros(len(self.highest), self.size)
        if self.full:
            change[np.ix_(self.highest, self.physical)] = slopes
        return Moments(mean, change @ state.covariance @ change.T)

    def step(self, state: Moments, h: Any, inputs: np.ndarray) -> tuple[Moments, list[Any]]:
        """Predict, estimate the diffusion, condition on the ODE."""
        a = block_diagonal([transition(q, h) for q in self.case.smoothness], self.numbers)
        mean = a @ state.mean
        values, slopes = gradients(lambda x: self.field(x, list(inputs)), list(mean[self.physical]))
        residual = mean[self.highest] - np.array(values, dtype=object)
        rows = self.numbers.zeros(len(self.highest), self.size)
        for c, i in enumerate(self.highest):
            rows[c, i] = self.numbers.convert(1)
        off = self.numbers.array(np.eye(self.size))
        off = np.stack([self.off_solutions(column) for column in off.T], axis=1)  # with the Jacobian before the step
        if self.full:
            self.slopes = slopes
            rows[:, self.physical] = rows[:, self.physical] - slopes
        part = a @ self.data_part
        from_data = rows @ part
        clean = residual - from_data
        calibrating = [z if abs(z) < 2 * abs(w) else 2 * w for z, w in zip(residual, clean, strict=True)]
        variance, noises = [], []
        for c, unit in enumerate(self.unit.step(h)):
            q, n = self.case.smoothness[c], self.case.model.orders[c]
            noise = process(q, h)
            estimate = self.estimators[c].update(calibrating[c], unit, noise[n, n], self.case.substeps)
            variance.append(estimate)
            noises.append(noise)
        variance = self.coupled(variance, noises)
        noises = [v * noise for v, noise in zip(variance, noises, strict=True)]
        moved = a if self.process_noise is None else self.carried(a @ off, h)
        predicted = Moments(mean, moved @ state.covariance @ moved.T + block_diagonal(noises, self.numbers))
        allowed = np.array([self.numbers.convert(self.case.ode_noise) ** 2] * len(rows), dtype=object)
        part = condition(Moments(part, predicted.covariance), rows, from_data, allowed, self.numbers)[0].mean
        self.data_part = self.off_solutions(part)
        state = condition(predicted, rows, residual, allowed, self.numbers)[0]
        kicks = self.kicks(h)
        return Moments(state.mean, state.covariance + kicks @ kicks.T), variance

    def coupled(self, variance: list[Any], noises: list[np.ndarray]) -> list[Any]:
        """At least what gives each highest derivative the variance that the others' noise gives to its right side."""
        if not getattr(self.case.diffusion, "coupled", False) or not self.full:
            return variance
        orders = self.case.model.orders
        owner = [(c, i) for c, n in enumerate(orders) for i in range(n)]
        result = []
        for c, n in enumerate(orders):
            reach = sum(
                (
                    slope**2 * variance[d] * noises[d][i, i]
                    for slope, (d, i) in zip(self.slopes[c], owner, strict=True)
                    if d != c
                ),
                start=self.numbers.convert(0),
            )
            result.append(max(variance[c], reach / noises[c][n, n]))
        return result

    def solution(self, physical: np.ndarray, count: int) -> list[list[Any]]:
        """Each coordinate of the linearised ODE's solution and its derivatives, `count` of them from the highest on."""
        orders = self.case.model.orders
        values = list(physical)
        paths = [[values.pop(0) for _ in range(n)] for n in orders]
        for k in range(count):
            known = np.array([path[i + k] for path, n in zip(paths, orders, strict=True) for i in range(n)])
            for path, value in zip(paths, self.slopes @ known, strict=True):
                path.append(value)
        return paths

    def along(self, physical: np.ndarray) -> np.ndarray:
        """All components of the linearised ODE's solution."""
        smoothness = self.case.smoothness
        paths = self.solution(physical, max(smoothness))
        values = [value for path, q in zip(paths, smoothness, strict=True) for value in path[: q + 1]]
        return np.array(values, dtype=object)

    def off_solutions(self, change: np.ndarray) -> np.ndarray:
        """A change of the state, less that of the solution of the linearised ODE with the same physical components."""
        return change - self.along(change[self.physical])

    def carried(self, extrapolated: np.ndarray, h: Any) -> np.ndarray:
        """The transition with process noise: physical components by the linearised ODE, the rest by the prior."""
        result = extrapolated.copy()
        for k, i in enumerate(self.physical):
            unit = np.array([self.numbers.convert(k == j) for j in range(len(self.physical))], dtype=object)
            after = [
                sum(path[d + t] * h**t / math.factorial(t) for t in range(8))
                for path, n in zip(self.solution(unit, 8), self.case.model.orders, strict=True)
                for d in range(n)
            ]
            result[:, i] = result[:, i] + self.along(np.array(after, dtype=object))
        return result

    def kicks(self, h: Any) -> np.ndarray:
        """Square root of the covariance of a step's white-noise force: responses to kicks of x^(n-1), by quadrature."""
        if self.process_noise is None:
            return self.numbers.zeros(self.size, 0)
        nodes, weights = np.polynomial.legendre.leggauss(max(self.case.model.orders) + 2)
        columns = []
        for level, highest in zip(self.process_noise, self.highest, strict=True):
            unit = np.array([self.numbers.convert(i == highest - 1) for i in self.physical], dtype=object)
            paths = self.solution(unit, 8)
            for node, weight in zip(nodes, weights, strict=True):
                tau = h * self.numbers.convert((node + 1) / 2)
                physical = [
                    sum(path[i + k] * tau**k / math.factorial(k) for k in range(8))
                    for path, n in zip(paths, self.case.model.orders, strict=True)
                    for i in range(n)
                ]
                size = level * self.numbers.sqrt(h * self.numbers.convert(weight / 2))
                columns.append(size * self.along(np.array(physical, dtype=object)))
        return np.stack(columns, axis=1)

    def observe(self, state: Moments, outputs: np.ndarray, inputs: np.ndarray) -> tuple[Moments, Any]:
        """Condition on all outputs that are present, at once."""
        present = [i for i, y in enumerate(outputs) if not np.isnan(y)]
        if not present:
            return state, self.numbers.convert(0)
        seen = [*self.physical, *self.highest]
        values, slopes = gradients(lambda x: self.measured(x, list(inputs[:, 0])), list(state.mean[seen]))
        rows = self.numbers.zeros(len(present), self.size)
        rows[:, seen] = slopes[present]
        residual = np.array([values[i] - self.numbers.convert(outputs[i]) for i in present], dtype=object)
        noise = np.array([self.noise[i] ** 2 for i in present], dtype=object)
        updated, energy = condition(state, rows, residual, noise, self.numbers)
        if not self.case.joint:
            return state, energy
        self.data_part = self.data_part + self.off_solutions(updated.mean - state.mean)
        return updated, energy

    def run(self) -> IBISState:
        case = self.case
        state, energy = self.observe(self.start(), case.outputs[0], self.inputs[0])
        result = IBISState([energy], [state], [])
        for k in range(1, case.samples):
            h = self.numbers.convert(case.steps[k])
            if case.restarts:
                state = self.restart(state, self.inputs[k - 1])
            for j in range(case.substeps):
                state, variance = self.step(state, h, self.grid[k, j])
                if j == case.substeps - 1:
                    if case.restarts:
                        state = self.jump(state, self.inputs[k][:, 0])
                    state, energy = self.observe(state, case.outputs[k], self.inputs[k])
                    result.energy.append(energy)
                result.points.append(state)
                result.variance.append(variance)
        return result


def textbook_energies(case: Case, numbers: Numbers = DOUBLES) -> np.ndarray:
    """(sample, particle)"""
    columns = [Textbook(case, n, numbers).run().energy for n in range(case.particles)]
    return np.array(columns, dtype=float).T
