"""A linear model in the steps that the particle filter takes, and its exact likelihood by a Kalman filter in NumPy."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class LinearModel:
    """dx = A x dt + B dW in Runge-Kutta steps with Euler-Maruyama noise, y = C x + N(0, R)."""

    drift: np.ndarray
    noise: np.ndarray
    readout: np.ndarray
    variance: np.ndarray
    start: np.ndarray
    step: float
    substeps: int

    def interval(self) -> tuple[np.ndarray, np.ndarray]:
        """Transition and covariance over one sampling interval."""
        size = len(self.start)
        h, a = self.step / self.substeps, self.drift
        unit = np.eye(size)
        one = unit + h * a @ (unit + h / 2 * a @ (unit + h / 3 * a @ (unit + h / 4 * a)))
        transition, covariance = unit, np.zeros((size, size))
        for _ in range(self.substeps):
            transition = one @ transition
            covariance = one @ covariance @ one.T + h * self.noise @ self.noise.T
        return transition, covariance

    def simulate(self, samples: int, seed: int) -> np.ndarray:
        """Outputs."""
        random, (transition, covariance) = np.random.default_rng(seed), self.interval()
        values, vectors = np.linalg.eigh(covariance)
        root, state, found = vectors * np.sqrt(np.maximum(values, 0)), self.start, []
        for k in range(samples):
            state = transition @ state + root @ random.standard_normal(len(state)) if k else state
            found.append(self.readout @ state + np.sqrt(self.variance) * random.standard_normal(len(self.variance)))
        return np.array(found)

    def smoothed(self, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means and standard deviations of the state at each sample given all outputs, from the joint Gaussian."""
        (transition, covariance), samples, size = self.interval(), len(outputs), len(self.start)
        mean, joint = np.zeros(samples * size), np.zeros((samples * size,) * 2)
        mean[:size] = self.start
        for k in range(1, samples):
            now, before = slice(k * size, (k + 1) * size), slice((k - 1) * size, k * size)
            mean[now] = transition @ mean[before]
            joint[now] = transition @ joint[before]
            joint[:, now] = joint[now].T
            joint[now, now] = transition @ joint[before, before] @ transition.T + covariance
        here = ~np.isnan(outputs).ravel()
        readout = np.kron(np.eye(samples), self.readout)[here]
        noise = np.diag(np.tile(self.variance, samples)[here])
        gain = np.linalg.solve(readout @ joint @ readout.T + noise, readout @ joint).T
        mean = mean + gain @ (outputs.ravel()[here] - readout @ mean)
        spread = np.diag(joint - gain @ readout @ joint)
        return mean.reshape(samples, size), np.sqrt(np.maximum(spread, 0)).reshape(samples, size)

    def log_likelihood(self, outputs: np.ndarray) -> np.ndarray:
        """Of each sample given those before; NaN is missing."""
        (transition, covariance), found = self.interval(), []
        mean, spread = self.start, np.zeros((len(self.start),) * 2)
        for k, y in enumerate(outputs):
            if k:
                mean, spread = transition @ mean, transition @ spread @ transition.T + covariance
            here = ~np.isnan(y)
            c, r = self.readout[here], np.diag(self.variance[here])
            s, v = c @ spread @ c.T + r, y[here] - c @ mean
            found.append(-0.5 * (v @ np.linalg.solve(s, v) + np.linalg.slogdet(2 * np.pi * s)[1]))
            gain = np.linalg.solve(s, c @ spread).T
            mean, spread = mean + gain @ v, spread - gain @ s @ gain.T
        return np.array(found)
