"""The figures of docs/method.md: `python docs/figures/method.py` writes them beside itself (a minute or two)."""

from collections.abc import Callable
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from scipy.integrate import solve_ivp

import probsysid as ps
from probsysid import dist

PLACE = Path(__file__).parent

duffing = ps.Model(
    coordinates={"x": 2},
    dynamics=lambda s, u, p: {"x": u.force - p.c * s.dx - p.k * s.x - p.k3 * s.x**3},
    outputs=lambda s, u, p: {"position": s.x},
)
TRUTH = {"c": 0.1, "k": 1.0, "k3": 0.5}


def force(t: np.ndarray | float) -> np.ndarray | float:
    """Two sines."""
    return 0.6 * np.sin(0.8 * t) + 0.4 * np.sin(1.5 * t + 1)


def exact(times: np.ndarray, start: tuple[float, float], drive: Callable) -> np.ndarray:
    """The motion, by an integrator whose error is negligible."""

    def motion(t: float, s: np.ndarray) -> tuple[float, float]:
        return s[1], drive(t) - TRUTH["c"] * s[1] - TRUTH["k"] * s[0] - TRUTH["k3"] * s[0] ** 3

    return solve_ivp(motion, (0, times[-1]), start, t_eval=times, rtol=1e-10, atol=1e-12).y[0]


def solver() -> None:
    """The solution with its error bars, for a long and a short step."""
    figure, axes = plt.subplots(1, 3, figsize=(9.5, 2.8), layout="constrained", width_ratios=[1, 1, 1])
    fine = np.linspace(0, 12, 400)
    for axis, step in zip(axes, (0.8, 0.4), strict=False):
        record = ps.Record(inputs={"force": lambda t: 0.0 * t}, dt=step, samples=int(12 / step) + 1)
        solution = ps.solve(duffing, TRUTH, record, initial={"x": 1.5}, solver=ps.Solver(smoothness=3))
        dense = solution.at(np.linspace(0, record.time[-1], 200))
        mean, sd = dense.mean["x"], dense.sd["x"]
        axis.fill_between(dense.time, mean - 2 * sd, mean + 2 * sd, color="C0", alpha=0.3, lw=0, label="2 sd")
        axis.plot(dense.time, mean, color="C0", label="solver")
        axis.plot(solution.time, solution.mean["x"], "o", ms=3, color="C0")
        axis.plot(fine, exact(fine, (1.5, 0.0), lambda t: 0.0), color="C3", lw=1, ls="--", label="exact")
        axis.set(title=f"a step every {step} s", xlabel="time [s]", ylim=(-2.2, 2.2))
        error = np.abs(solution.mean["x"] - exact(solution.time, (1.5, 0.0), lambda t: 0.0))
        axes[2].semilogy(solution.time[1:], error[1:], "o", ms=3, label=f"error, {step} s")
        axes[2].semilogy(solution.time[1:], solution.sd["x"][1:], label=f"sd, {step} s", color=f"C{step == 0.4:d}")
    axes[0].legend(frameon=False, fontsize="small", loc="upper right", ncols=3)
    axes[2].legend(frameon=False, fontsize="small", ncols=2, loc="lower right")
    axes[2].set(title="reported sd, actual error", xlabel="time [s]", ylim=(5e-5, 1))
    figure.savefig(PLACE / "method-solver.png", dpi=130)


def particles() -> None:
    """Particles after increasing numbers of samples."""
    time = 0.3 * np.arange(40)
    noisy = exact(time, (0.0, 0.0), force) + 0.05 * np.random.default_rng(0).standard_normal(len(time))
    online = ps.Identifier(
        duffing,
        priors={"c": dist.LogNormal(-2, 1), "k": dist.LogNormal(0, 0.5), "k3": 0.5},
        noise={"position": 0.05},
        initial={"x": 0.0, "dx": 0.0},
        dt=0.3,
        sampler=ps.Sampler(particles=512),
    )
    figure, axes = plt.subplots(1, 4, figsize=(9.5, 2.5), layout="constrained", sharey=True, sharex=True)
    for axis, count in zip(axes, (1, 8, 15, 40), strict=True):
        new = slice(online.samples, count)
        online.update({"force": force(time[new])}, {"position": noisy[new]})
        now = online.posterior
        axis.scatter(now.values["k"], now.values["c"], s=2000 * now.weights, alpha=0.5, lw=0)
        axis.plot(TRUTH["k"], TRUTH["c"], "x", color="C3")
        axis.set(title=f"{count} sample{'s' * (count > 1)}", xlabel="k", yscale="log", ylim=(5e-3, 3), xlim=(0.2, 3))
    axes[0].set_ylabel("c")
    figure.savefig(PLACE / "method-particles.png", dpi=130)


def runge_kutta(times: np.ndarray, damping: np.ndarray, steps: int) -> np.ndarray:
    """Position for each damping, by the classical Runge-Kutta method with `steps` per sample."""
    x, v = np.zeros_like(damping), np.zeros_like(damping)
    h = (times[1] - times[0]) / steps

    def slope(t: float, x: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return v, force(t) - damping * v - TRUTH["k"] * x - TRUTH["k3"] * x**3

    path = [x]
    for k in range((len(times) - 1) * steps):
        t = k * h
        a = slope(t, x, v)
        b = slope(t + h / 2, x + h / 2 * a[0], v + h / 2 * a[1])
        c = slope(t + h / 2, x + h / 2 * b[0], v + h / 2 * b[1])
        d = slope(t + h, x + h * c[0], v + h * c[1])
        x = x + h / 6 * (a[0] + 2 * b[0] + 2 * c[0] + d[0])
        v = v + h / 6 * (a[1] + 2 * b[1] + 2 * c[1] + d[1])
        if (k + 1) % steps == 0:
            path.append(x)
    return np.stack(path)


def honest() -> None:
    """Posterior of one constant with a long step: treated as exact, and with its error included."""
    time = 0.6 * np.arange(200)
    noise = 0.005
    noisy = exact(time, (0.0, 0.0), force) + noise * np.random.default_rng(1).standard_normal(len(time))
    record = ps.Record(inputs={"force": force}, outputs={"position": noisy}, dt=0.6)
    figure, axis = plt.subplots(figsize=(6.5, 2.6), layout="constrained")
    grid = np.linspace(0.07, 0.105, 4000)
    for steps, color, label in ((1, "C1", "Runge-Kutta, 1 step per sample"), (16, "0.3", "Runge-Kutta, 16 steps")):
        energy = 0.5 * np.sum((runge_kutta(time, grid, steps) - noisy[:, None]) ** 2, axis=0) / noise**2
        density = np.exp(energy.min() - energy)
        axis.plot(grid, density / density.max(), color=color, label=label)
        mean = density @ grid / density.sum()
        print(label, mean, np.sqrt(density @ (grid - mean) ** 2 / density.sum()))
    found = ps.identify(
        duffing,
        record,
        priors={"c": dist.Uniform(0.02, 0.3), "k": 1.0, "k3": 0.5},
        noise={"position": noise},
        initial={"x": 0.0, "dx": 0.0},
        solver=ps.Solver(substeps=1),
        sampler=ps.Sampler(particles=512),
    )
    mean, sd = found.mean("c"), found.sd("c")
    print("ours, 1 step per sample", mean, sd)
    axis.plot(grid, np.exp(-0.5 * ((grid - mean) / sd) ** 2), color="C0", label="this method, 1 step per sample")
    axis.axvline(TRUTH["c"], color="C3", lw=1, ls="--", label="truth")
    axis.set(xlabel="damping c", yticks=[], xlim=(grid[0], grid[-1]))
    axis.legend(frameon=False, fontsize="small")
    figure.savefig(PLACE / "method-honest.png", dpi=130)


if __name__ == "__main__":
    solver()
    particles()
    honest()
