"""An initial state from the first samples, against the exact Gaussian posterior of linear models."""

import numpy as np
import pytest
from scipy.linalg import expm

import probsysid as ps
from probsysid.posterior.initial_estimate import InitialPrior, estimate_states

DT, SAMPLES, NOISE = 0.2, 12, 0.1
DRAWS = 4000
PRIOR = InitialPrior(np.array([0.3, -0.2]), np.array([1.0, 2.0]), np.array([[0.0, 1.0], [0.5, -1.0]]))


def oscillator(stiffness: float) -> ps.Model:
    return ps.Model({"x": 2}, lambda s, u, p: {"x": p.a - stiffness * s.x}, lambda s, u, p: {"y": s.x})


def record() -> ps.Record:
    values = np.random.default_rng(0).standard_normal(SAMPLES)
    values[[3, 4]] = np.nan
    return ps.Record(outputs={"y": values}, dt=DT)


def exact(stiffness: float, force: float, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the initial state, from the joint Gaussian of everything."""
    drift = np.array([[0.0, 1.0], [-stiffness, 0.0]])
    move = expm(DT * drift)
    push = np.linalg.solve(drift, (move - np.eye(2)) @ [0.0, force]) if stiffness else force * np.array([DT**2 / 2, DT])
    kick = level**2 * np.array([[DT**3 / 3, DT**2 / 2], [DT**2 / 2, DT]])
    rows, offset, covariance = [np.eye(2)], [np.zeros(2)], [[np.zeros((2, 2))] * SAMPLES for _ in range(SAMPLES)]
    for _ in range(1, SAMPLES):
        rows.append(move @ rows[-1])
        offset.append(move @ offset[-1] + push)
    for t in range(1, SAMPLES):
        covariance[t][t] = move @ covariance[t - 1][t - 1] @ move.T + kick
        for later in range(t + 1, SAMPLES):
            covariance[later][t] = move @ covariance[later - 1][t]
            covariance[t][later] = covariance[later][t].T
    measured = np.asarray(record().outputs["y"])
    known = np.isfinite(measured)
    design = np.stack(rows)[known, 0]
    spread = np.array([[c[0, 0] for c in row] for row in covariance])[np.ix_(known, known)]
    precision = np.linalg.inv(spread + NOISE**2 * np.eye(known.sum()))
    prior = np.diag(1 / PRIOR.sd**2)
    found = np.linalg.inv(prior + design.T @ precision @ design)
    target = measured[known] - np.stack(offset)[known, 0]
    return found @ (prior @ PRIOR.mean + design.T @ precision @ target), found


# Kicks of an interval enter at its end: exact for a chain of integrators only, with which process noise is tested.
@pytest.mark.parametrize(("stiffness", "level"), [(1.5, 0.0), (0.0, 0.7)])
def test_the_gaussian_posterior_of_a_linear_model(stiffness: float, level: float) -> None:
    force = 0.4
    drawn = estimate_states(
        oscillator(stiffness),
        {"a": np.full(DRAWS, force)},
        {"y": np.full(DRAWS, NOISE)},
        {"x": np.full(DRAWS, level)} if level else {},
        record(),
        PRIOR,
        seed=1,
    )
    mean, covariance = exact(stiffness, force, level)
    sd = np.sqrt(np.diag(covariance))
    # 4000 draws: means to 0.016 sd, sds to 1.1 %, correlation to at most 0.016; four times that
    assert np.all(np.abs(drawn.mean(axis=1) - mean) < 0.064 * sd)
    assert np.all(np.abs(drawn.std(axis=1) / sd - 1) < 0.045)
    assert abs(np.corrcoef(drawn)[0, 1] - covariance[0, 1] / sd.prod()) < 0.064


def test_particles_have_their_own_states() -> None:
    """Without noise, what each particle's parameters make of the same data."""
    rates = np.array([0.5, 1.0, 2.0])
    model = ps.Model({"x": 1}, lambda s, u, p: {"x": -p.a * s.x}, lambda s, u, p: {"y": s.x})
    time = DT * np.arange(SAMPLES)
    data = ps.Record(outputs={"y": np.exp(-time)}, dt=DT)
    prior = InitialPrior(np.zeros(1), np.array([10.0]), np.zeros((1, 1)))
    drawn = estimate_states(model, {"a": rates}, {"y": np.full(3, 1e-6)}, {}, data, prior, seed=0)[0]
    decays = np.exp(-rates[:, None] * time)
    by_hand = decays @ np.exp(-time) / np.sum(decays**2, axis=1)
    assert np.max(np.abs(drawn - by_hand)) < 1e-5  # noise of 1e-6, divided by the root of at least one sample
