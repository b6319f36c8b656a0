"""Simulated cases: forces and rates that are known, and were not given."""

import time as clock
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
import scipy.integrate
import scipy.linalg

import probsysid as ps
from probsysid import dist
from validation.inputs.score import held, input_scores, run

LINEAR = ps.Model({"x": 2}, lambda s, u, p: {"x": u.force - p.c * s.dx - p.k * s.x}, lambda s, u, p: {"position": s.x})
LINEAR_PRIORS = {"c": dist.LogNormal(np.log(0.3), 0.4), "k": dist.LogNormal(np.log(4.0), 0.3)}
LINEAR_FORCE = {"scale": dist.LogNormal(0.0, 0.4), "length": dist.LogNormal(np.log(1.5), 0.4)}

DUFFING = ps.Model(
    {"x": 2},
    lambda s, u, p: {"x": u.force - p.c * s.dx - p.k * s.x - p.k3 * s.x**3},
    lambda s, u, p: {"position": s.x},
)
DUFFING_ACCELERATION = ps.Model(
    DUFFING.coordinates, DUFFING.dynamics, lambda s, u, p: {"position": s.x, "acceleration": s.ddx}
)
DUFFING_TRUTH = {"c": 0.2, "k": 1.0, "k3": 0.5, "force.scale": 1.0, "force.length": 5.0}
DUFFING_PRIORS = {name: dist.LogNormal(np.log(DUFFING_TRUTH[name]) + 0.2, 0.5) for name in ("c", "k", "k3")}
DUFFING_FORCE = ps.Matern(0.5, scale=dist.LogNormal(0.3, 0.7), length=dist.LogNormal(1.3, 0.7))


def simulated(
    acceleration: Callable[[float, float, float], float],
    force: Callable[[int], np.ndarray],
    samples: int,
    dt: float,
    fine: int,
) -> np.ndarray:
    """Columns position, velocity, force at the samples, by semi-implicit steps; `force(n)` is its fine path."""
    path, x, v, rows = force(samples * fine), 0.0, 0.0, []
    for k in range(samples):
        rows.append((x, v, path[k * fine]))
        for j in range(fine):
            v += dt / fine * acceleration(x, v, path[k * fine + j])
            x += dt / fine * v
    return np.array(rows).T


def matern_path(nu: float, scale: float, length: float, step: float, random: np.random.Generator) -> Any:
    """Draws of a Matern process with nu = 1/2 or 3/2, by exact steps."""
    kernel = ps.Matern(nu, scale, length)
    equation = kernel.sde([kernel.hyperparameters])
    size = len(equation.levels)
    a = np.array([[0.0 if entry is None else float(entry) for entry in row] for row in equation.drift])
    start = np.diag(np.square([float(sd) for sd in equation.start]))
    transition = scipy.linalg.expm(a * step)
    factor = np.linalg.cholesky(start - transition @ start @ transition.T)

    def path(count: int) -> np.ndarray:
        state, found = np.sqrt(start) @ random.normal(size=size), np.empty(count)
        for k, normals in enumerate(random.normal(size=(count, size))):
            found[k] = state[0]
            state = transition @ state + factor @ normals
        return found

    return path


def linear(seed: int) -> dict[str, Any]:
    """A linear oscillator whose constants and hyperparameters are drawn from the prior: 90 % of intervals hold them."""
    random, dt, samples = np.random.default_rng(seed), 0.2, 250
    priors = {**LINEAR_PRIORS, **{f"force.{name}": prior for name, prior in LINEAR_FORCE.items()}}
    truth = {name: float(np.exp(prior.loc + prior.scale * random.normal())) for name, prior in priors.items()}
    rate = np.sqrt(3) / truth["force.length"]
    a = np.zeros((4, 4))
    a[0, 1] = a[1, 2] = a[2, 3] = 1.0
    a[1, :2], a[3, 2:] = (-truth["k"], -truth["c"]), (-(rate**2), -2 * rate)
    noise = np.diag([0.0, 0.0, 0.0, 4 * truth["force.scale"] ** 2 * rate**3])
    block = scipy.linalg.expm(np.block([[-a, noise], [np.zeros((4, 4)), a.T]]) * dt)  # Van Loan's method
    transition = block[4:, 4:].T
    factor = np.linalg.cholesky(transition @ block[:4, 4:])
    state, rows = np.array([0.0, 0.0, *(truth["force.scale"] * np.array([1, rate]) * random.normal(size=2))]), []
    for _ in range(samples):
        rows.append(state[[0, 2]])
        state = transition @ state + factor @ random.normal(size=4)
    x, f = np.array(rows).T
    record = ps.Record({"force": f}, {"position": x + 0.01 * random.normal(size=samples)}, dt=dt)
    posterior, facts = run(
        LINEAR,
        record,
        LINEAR_PRIORS,
        {"position": 0.01},
        {"x": 0.0, "dx": 0.0},
        unknown={"force": ps.Matern(1.5, **LINEAR_FORCE)},
        seed=seed,
    )
    return facts | input_scores(posterior, "force") | held(posterior, truth)


def duffing(seed: int, constants: str = "inferred", accelerometer: float | None = None) -> dict[str, Any]:
    """After Rogers, Worden and Cross (2020): a Duffing oscillator under a Matern force with nu = 1/2; displacement is
    measured, and acceleration with some noise."""
    random, dt, fine, t = np.random.default_rng(seed), 0.1, 50, DUFFING_TRUTH
    path = matern_path(0.5, t["force.scale"], t["force.length"], dt / fine, random)

    def acceleration(x: Any, v: Any, f: Any) -> Any:
        return f - t["c"] * v - t["k"] * x - t["k3"] * x**3

    x, v, f = simulated(acceleration, path, 400, dt, fine)
    outputs, noise = {"position": x + 0.002 * random.normal(size=len(x))}, {"position": 0.002}
    if accelerometer is not None:
        outputs["acceleration"] = acceleration(x, v, f) + accelerometer * random.normal(size=len(x))
        noise["acceleration"] = accelerometer
    record = ps.Record({"force": f}, outputs, dt=dt)
    priors: Mapping[str, Any] = DUFFING_PRIORS if constants == "inferred" else {n: t[n] for n in DUFFING_PRIORS}
    posterior, facts = run(
        DUFFING if accelerometer is None else DUFFING_ACCELERATION,
        record,
        priors,
        noise,
        {"x": 0.0, "dx": 0.0},
        unknown={"force": DUFFING_FORCE},
        seed=seed,
    )
    states = posterior.states(draws=100)
    errors = {
        name: float(100 * np.mean((states.mean[name] - true) ** 2) / np.var(true))
        for name, true in (("x", x), ("dx", v))
    }
    return facts | errors | input_scores(posterior, "force") | held(posterior, t)


# Drifts


def falling(seed: int, loss: float = 0.1) -> dict[str, Any]:
    """An oscillator whose stiffness falls by a share between 40 and 44 s of 80 s, or not at all."""
    random, dt = np.random.default_rng(seed), 0.2
    time = dt * np.arange(400)
    frequencies, phases = np.array([0.11, 0.19, 0.27, 0.34, 0.41]), random.uniform(0, 2 * np.pi, 5)

    def force(t: Any) -> np.ndarray:
        return np.sum(np.sin(2 * np.pi * np.multiply.outer(t, frequencies) + phases), axis=-1)

    def stiffness(t: Any) -> Any:
        return 4.0 * (1 - loss * np.clip((np.asarray(t) - 40) / 4, 0, 1))

    def motion(t: float, s: np.ndarray) -> list[float]:
        return [s[1], float(force(t) - 0.2 * s[1] - stiffness(t) * s[0])]

    options = {"method": "DOP853", "rtol": 1e-10, "atol": 1e-12, "max_step": 0.5}
    exact = scipy.integrate.solve_ivp(motion, (0.0, time[-1]), [0.0, 0.0], t_eval=time, **options).y[0]
    noisy = exact + 0.01 * random.normal(size=len(time))

    def drive(t: Any) -> Any:
        return sum(jnp.sin(2 * jnp.pi * f * t + p) for f, p in zip(frequencies, phases, strict=True))

    record = ps.Record({"force": drive}, {"position": noisy}, dt=dt)
    arguments: tuple[Any, ...] = (
        LINEAR,
        record,
        {"c": dist.LogNormal(np.log(0.2), 1), "k": dist.LogNormal(np.log(4), 0.5)},
        {"position": 0.01},
        {"x": 0.0, "dx": 0.0},
    )
    posterior, facts = run(*arguments, drifts={"k": ps.RandomWalk(rate=dist.HalfNormal(0.05))}, seed=seed)
    constant, _ = run(*arguments, seed=seed)
    found = posterior.inputs(draws=200)
    (verdict,) = posterior.identifiability.drifts
    change = found.change("k")
    low, high = found.band("k")
    true = stiffness(time)
    return facts | {
        "verdict": verdict.verdict,
        "log odds of a constant": verdict.log_odds,
        "log evidence of a constant over a drift": constant.log_evidence - posterior.log_evidence,
        "its error": float(np.hypot(constant.log_evidence_error, posterior.log_evidence_error)),
        "time": [change.earliest, change.time, change.latest],
        "size": [change.least, change.size, change.most],
        "in its band": float(100 * np.mean((low <= true) & (true <= high))),
        "rate below": verdict.limit,
    }


def lotka_volterra(seed: int) -> dict[str, Any]:
    """Prey whose growth rate changes with the season, which the model does not know: 20 % noise on both populations."""
    random, dt, samples, fine = np.random.default_rng(seed), 0.5, 120, 200

    def growth(t: Any) -> Any:
        return 0.8 * np.exp(0.4 * np.sin(2 * np.pi * np.asarray(t) / 30.0))

    truth, (x, y), rows = {"b": 0.4, "c": 0.7, "d": 0.3}, (2.0, 1.5), []
    for k in range(samples):
        rows.append((x, y))
        for j in range(fine):
            rate = growth(k * dt + j * dt / fine)
            x, y = (
                x + dt / fine * x * (rate - truth["b"] * y),
                y + dt / fine * y * (truth["d"] * x - truth["c"]),
            )
    prey, hunters = np.array(rows).T * np.exp(0.2 * random.normal(size=(2, samples)))
    model = ps.Model(
        {"x": 1, "y": 1},
        lambda s, u, p: {"x": p.a - p.b * jnp.exp(s.y), "y": p.d * jnp.exp(s.x) - p.c},
        lambda s, u, p: {"prey": jnp.exp(s.x), "hunters": jnp.exp(s.y)},
    )
    noise = ps.Noise(level=dist.LogNormal(np.log(0.2), 0.5), transform="log")
    posterior, facts = run(
        model,
        ps.Record({}, {"prey": prey, "hunters": hunters}, dt=dt),
        {name: dist.LogNormal(np.log(0.5), 0.5) for name in "abcd"},
        {"prey": noise, "hunters": noise},
        {"x": dist.Normal(np.log(2), 0.3), "y": dist.Normal(np.log(1.5), 0.3)},
        drifts={"a": ps.Matern(1.5, scale=dist.HalfNormal(0.5), length=dist.LogNormal(np.log(5), 0.7))},
        seed=seed,
    )
    return facts | drift_scores(posterior, "a", growth(dt * np.arange(samples))) | held(posterior, truth)


def sird(seed: int) -> dict[str, Any]:
    """Schmidt, Kraemer and Hennig (2021): daily counts of infected, recovered and dead; the contact rate changes."""
    random, samples, people, fine = np.random.default_rng(seed), 150, 1e6, 20

    def contact(t: Any) -> Any:
        t = np.asarray(t)
        return 0.10 + 0.25 / (1 + np.exp((t - 30) / 3)) + 0.10 / (1 + np.exp(-(t - 90) / 4))

    gamma, eta = 0.12, 0.003
    s, i, r, d = people - 200, 200.0, 0.0, 0.0
    rows, step = [], 1 / fine
    for k in range(samples):
        rows.append((i, r, d))
        for j in range(fine):
            beta = float(contact(k + j * step))
            fresh = random.poisson(beta * s * i / people * step)
            well, dead = random.poisson(gamma * i * step), random.poisson(eta * i * step)
            s, i, r, d = s - fresh, max(i + fresh - well - dead, 0.0), r + well, d + dead
    counts = np.array(rows).T
    seen = np.round(counts * np.exp(0.05 * random.normal(size=counts.shape)))
    # in thousands of log infected, so that counts over four decades are of one size
    model = ps.Model(
        {"i": 1, "r": 1, "d": 1},
        lambda s, u, p: {
            "i": p.beta * (1 - (jnp.exp(s.i) + s.r + s.d) / 1000.0) - p.gamma - p.eta,
            "r": p.gamma * jnp.exp(s.i),
            "d": p.eta * jnp.exp(s.i),
        },
        lambda s, u, p: {"infected": jnp.exp(s.i), "recovered": s.r, "dead": s.d},
    )
    thousands = np.where(seen >= 20, seen, np.nan) / 1000.0
    noise = ps.Noise(level=dist.LogNormal(np.log(0.05), 0.5), transform="log")
    posterior, facts = run(
        model,
        ps.Record({}, dict(zip(("infected", "recovered", "dead"), thousands, strict=True)), dt=1.0),
        {
            "beta": dist.LogNormal(np.log(0.3), 0.5),
            "gamma": dist.LogNormal(np.log(0.1), 0.5),
            "eta": dist.LogNormal(np.log(0.005), 0.7),
        },
        dict.fromkeys(("infected", "recovered", "dead"), noise),
        {"i": dist.Normal(np.log(0.2), 0.3), "r": 0.0, "d": 0.0},
        drifts={"beta": ps.Matern(1.5, scale=dist.HalfNormal(1.0), length=dist.LogNormal(np.log(20), 0.7))},
        seed=seed,
    )
    scores = drift_scores(posterior, "beta", contact(np.arange(samples)))
    return facts | scores | held(posterior, {"gamma": gamma, "eta": eta})


def drift_scores(posterior: ps.Posterior, name: str, true: np.ndarray) -> dict[str, Any]:
    """Error and coverage of a drifting parameter, and the verdict on its constancy."""
    found = posterior.inputs(draws=200)
    low, high = found.band(name)
    (verdict,) = posterior.identifiability.drifts
    return {
        "error": float(100 * np.mean((found.mean[name] - true) ** 2) / np.var(true)),
        "coverage": float(100 * np.mean((low <= true) & (true <= high))),
        "verdict": verdict.verdict,
    }


# Cost


def cost(seed: int, samples: int = 250) -> dict[str, Any]:
    """The linear oscillator with its force known, unknown, and with a stiffness that may drift: the same record."""
    random, dt, fine = np.random.default_rng(seed), 0.2, 20
    path = matern_path(1.5, 1.0, 1.5, dt / fine, random)
    x, _, f = simulated(lambda x, v, f: f - 0.3 * v - 4.0 * x, path, samples, dt, fine)
    record = ps.Record({"force": f}, {"position": x + 0.01 * random.normal(size=len(x))}, dt=dt)
    options: dict[str, dict[str, Any]] = {
        "known": {},
        "unknown": {"unknown": {"force": ps.Matern(1.5, **LINEAR_FORCE)}},
        "known, drift": {"drifts": {"k": ps.RandomWalk(rate=dist.HalfNormal(0.05))}},
    }
    rows = {}
    for name, given in options.items():
        for again in (0, 1):  # the second has its programs compiled
            began = clock.process_time()
            posterior, facts = run(
                LINEAR, record, LINEAR_PRIORS, {"position": 0.01}, {"x": 0.0, "dx": 0.0}, seed=seed + again, **given
            )
            seconds = clock.process_time() - began
            if not again:
                first = seconds
        sweeps = float(posterior.settings.sweeps)
        rows[name] = {
            "steps": facts["steps"],
            "sweeps": sweeps,
            "first": first,
            "seconds": seconds,
            "microseconds": 1e6 * seconds / (sweeps * samples * len(posterior.weights)),
        }
    return {"rows": rows, "samples": samples}
