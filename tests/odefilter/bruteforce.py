"""The joint Gaussian over all states of all steps, for linear ODEs.

Every quantity is an affine function of independent standard normals: a mean and a row of weights.  Nothing is recursive
here: the states are stacked, and conditioning on all constraints and data at once is one QR decomposition.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tests.odefilter.cases import Case
from tests.odefilter.differentiate import gradients
from tests.odefilter.textbook import Moments, Textbook, process, transition


class Affine(NamedTuple):
    """mean + weights @ normals"""

    mean: np.ndarray
    weights: np.ndarray


@dataclass
class Joint:
    """States at all points, and what is known about them, in the order in which it becomes known."""

    columns: int
    times: list[float] = field(default_factory=list)
    states: list[Affine] = field(default_factory=list)
    known_until: list[int] = field(default_factory=list)
    """How many rows are known to the filter at each point."""
    rows: list[np.ndarray] = field(default_factory=list)
    misses: list[float] = field(default_factory=list)
    """Value minus mean of each known quantity."""
    samples: list[int | None] = field(default_factory=list)
    """The sample that a row is data of; None for constraints."""
    noise: list[np.ndarray] = field(default_factory=list)
    """Weights of all coloured noise at each sample."""
    used: int = 0

    def fresh(self, count: int) -> np.ndarray:
        """Weights of new independent normals."""
        weights = np.zeros((count, self.columns))
        weights[:, self.used : self.used + count] = np.eye(count)
        self.used += count
        assert self.used <= self.columns
        return weights

    def decomposed(self, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        q, r = np.linalg.qr(np.array(self.rows[:count]).T)
        white = np.linalg.solve(r.T, np.array(self.misses[:count]))
        return q, r, white

    def energies(self, samples: int) -> np.ndarray:
        """Negative log density of each sample's data given all rows before."""
        _, r, white = self.decomposed(len(self.rows))
        result = np.zeros(samples)
        for i, sample in enumerate(self.samples):
            if sample is not None:
                result[sample] += 0.5 * (np.log(2 * np.pi * r[i, i] ** 2) + white[i] ** 2)
        return result

    def moments(self, point: int, count: int) -> Moments:
        """Of the state at a point given the first rows."""
        return self._given(self.states[point], count)

    def _given(self, state: Affine, count: int) -> Moments:
        if count == 0:
            return Moments(state.mean, state.weights @ state.weights.T)
        q, _, white = self.decomposed(count)
        along = state.weights @ q
        rest = state.weights - along @ q.T
        return Moments(state.mean + along @ white, rest @ rest.T)

    def filtered(self, point: int) -> Moments:
        return self.moments(point, self.known_until[point])

    def smoothed(self, point: int) -> Moments:
        return self.moments(point, len(self.rows))

    def smoothed_noise(self, sample: int) -> Moments:
        """Of the coloured noise at a sample."""
        weights = self.noise[sample]
        return self._given(Affine(np.zeros(len(weights)), weights), len(self.rows))

    def covariance(self, first: int, second: int) -> np.ndarray:
        """Between the states at two points, given everything."""
        q, _, _ = self.decomposed(len(self.rows))
        a, b = self.states[first].weights, self.states[second].weights
        return (a - a @ q @ q.T) @ (b - b @ q @ q.T).T


def joint_gaussian(
    case: Case, variance: np.ndarray, particle: int = 0, extra: tuple[float, ...] = (), data: bool = True
) -> Joint:
    """Stack the states of a linear case.

    Args:
        case: the model must be linear in the state, and affine in the inputs.
        variance: squared diffusion of each step by coordinate, (step, coordinate).
        particle: which one.
        extra: times at which the state is wanted besides the steps.
        data: whether the data are among the known rows.
    """
    book = Textbook(case, particle)
    size, physical, highest = book.size, book.physical, book.highest
    total = (case.samples - 1) * case.substeps + len(extra)
    joint = Joint(columns=len(physical) + total * size + case.outputs.size + total * len(highest))

    def affine(function, point: int) -> tuple[np.ndarray, np.ndarray]:
        """Value at zero and slopes."""
        values, slopes = gradients(function, [0.0] * point)
        return np.array(values, dtype=float), np.array(slopes, dtype=float)

    def complete(state: Affine, inputs: np.ndarray) -> Affine:
        """All components from the physical ones: the solution's derivatives are affine in them."""
        zero = book.complete([0.0] * len(physical), np.zeros((len(physical),) * 2), inputs)
        units = [book.complete(list(unit), np.zeros((len(physical),) * 2), inputs) for unit in np.eye(len(physical))]
        value = np.array(zero.mean, dtype=float)
        slopes = np.stack([np.array(u.mean, dtype=float) - value for u in units], axis=1)
        return Affine(value + slopes @ state.mean, slopes @ state.weights)

    def jump(state: Affine, inputs: np.ndarray) -> Affine:
        """The highest derivatives after the inputs have jumped."""
        if case.ode_noise:
            return state
        value, slopes = affine(lambda x: book.field(x, list(inputs)), len(physical))
        mean, weights = state.mean.copy(), state.weights.copy()
        mean[highest], weights[highest] = value + slopes @ mean[physical], slopes @ weights[physical]
        return Affine(mean, weights)

    def constrain(state: Affine, inputs: np.ndarray) -> None:
        value, slopes = affine(lambda x: book.field(x, list(inputs)), len(physical))
        weights = state.weights[highest] - slopes @ state.weights[physical]
        if case.ode_noise:
            weights = weights + case.ode_noise * joint.fresh(len(highest))
        joint.rows.extend(weights)
        joint.misses.extend(-(state.mean[highest] - slopes @ state.mean[physical] - value))
        joint.samples.extend([None] * len(highest))

    coloured: dict[int, np.ndarray] = {}

    def noise_weights(i: int, k: int) -> np.ndarray:
        """Weights of an output's noise at a sample; coloured noise moves on from sample to sample."""
        fresh = joint.fresh(1)[0]
        if i not in case.correlation_time:
            return book.noise[i] * fresh
        if k == 0:
            return book.noise[i] * fresh
        memory = np.exp(-(case.time[k] - case.time[k - 1]) / case.correlation_time[i][particle])
        return memory * coloured[i] + np.sqrt(1 - memory**2) * book.noise[i] * fresh

    def observe(state: Affine, k: int) -> None:
        seen = [*physical, *highest]
        value, slopes = affine(lambda x: book.measured(x, list(book.inputs[k][:, 0])), len(seen))
        for i, y in enumerate(case.outputs[k]):
            if i in case.correlation_time or (data and not np.isnan(y)):
                coloured[i] = noise_weights(i, k)
            if data and not np.isnan(y):
                joint.rows.append(slopes[i] @ state.weights[seen] + coloured[i])
                joint.misses.append(y - (value[i] + slopes[i] @ state.mean[seen]))
                joint.samples.append(k)
        joint.noise.append(np.array([coloured[i] for i in case.correlation_time]))

    def move(state: Affine, h: float, diffusion: np.ndarray) -> Affine:
        a = np.zeros((size, size))
        noise = np.zeros((size, size))
        start = 0
        for c, q in enumerate(case.smoothness):
            block = slice(start, start + q + 1)
            a[block, block] = transition(q, h).astype(float)
            covariance = process(q, h).astype(float)
            scale = np.sqrt(np.diag(covariance))  # a Cholesky of correlations keeps every row's relative accuracy
            lower = np.linalg.cholesky(covariance / np.outer(scale, scale))
            noise[block, block] = np.sqrt(diffusion[c]) * scale[:, None] * lower
            start += q + 1
        return Affine(a @ state.mean, a @ state.weights + noise @ joint.fresh(size))

    def keep(time: float, state: Affine) -> None:
        joint.times.append(time)
        joint.states.append(state)
        joint.known_until.append(len(joint.rows))

    mean, sd = book.initial
    state = complete(Affine(np.array(mean), np.array(sd)[:, None] * joint.fresh(len(physical))), book.inputs[0])
    observe(state, 0)
    keep(case.time[0], state)
    time = case.time[0]
    for k in range(1, case.samples):
        if case.restarts:
            state = complete(Affine(state.mean[physical], state.weights[physical]), book.inputs[k - 1])
        for j in range(case.substeps):
            step = (k - 1) * case.substeps + j
            end = case.time[k - 1] + (j + 1) * case.steps[k]
            for between in sorted(t for t in extra if time < t < end):
                state = move(state, between - time, variance[step])
                keep(between, state)
                time = between
            state = move(state, end - time, variance[step])
            time = end
            constrain(state, book.grid[k, j])
            if j == case.substeps - 1:
                # Outputs feel the jump; the state that is reported is the one that led there.
                observe(jump(state, book.inputs[k][:, 0]) if case.restarts else state, k)
            keep(end, state)
    return joint
