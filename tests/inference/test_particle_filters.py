"""SMC^2: posterior and evidence of models whose likelihood is estimated."""

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import probsysid as ps
from probsysid.particlefilter.settings import ParticleFilter
from tests.particlefilter.linear import LinearModel

STEP, SAMPLES, NOISE = 0.5, 40, 0.3
MODEL = ps.Model(
    {"x": 1}, lambda s, u, p: {"x": -p.a * s.x}, lambda s, u, p: {"y": s.x}, diffusion=lambda s, u, p: {"x": p.s}
)
PRIORS = {"a": ps.dist.LogNormal(-0.5, 0.5), "s": ps.dist.LogNormal(0.0, 0.5)}


def linear(a: float, s: float) -> LinearModel:
    return LinearModel(
        np.array([[-a]]), np.array([[s]]), np.eye(1), np.array([NOISE**2]), np.zeros(1), STEP, ParticleFilter.substeps
    )


RECORD = ps.Record(outputs={"y": linear(0.7, 0.8).simulate(SAMPLES, seed=0)[:, 0]}, dt=STEP)


def run(seed: int, **changes: Any) -> ps.Posterior:
    given = {"sampler": ps.Sampler(particles=256), "solver": ParticleFilter(particles=32), **changes}
    return ps.identify(MODEL, RECORD, PRIORS, {"y": NOISE}, {"x": 0.0}, seed=seed, **given)


class Exact:
    """Posterior and evidence by Kalman filters on a grid of the standardised logarithms of both parameters."""

    def __init__(self) -> None:
        axis = np.linspace(-4.5, 4.5, 41)
        logs = np.stack(np.meshgrid(-0.5 + 0.5 * axis, 0.5 * axis, indexing="ij")).reshape(2, -1)
        outputs = RECORD.outputs["y"][:, None]
        found = np.array([linear(*np.exp(each)).log_likelihood(outputs).sum() for each in logs.T])
        prior = np.exp(-0.5 * np.sum(np.stack(np.meshgrid(axis, axis)) ** 2, axis=0)).ravel() / (2 * np.pi)
        width = (axis[1] - axis[0]) ** 2
        joint = np.exp(found - found.max()) * prior * width
        self.log_evidence = float(np.log(joint.sum()) + found.max())
        weights = joint / joint.sum()
        self.mean = logs @ weights
        self.sd = np.sqrt((logs - self.mean[:, None]) ** 2 @ weights)


@pytest.fixture(scope="module")
def exact() -> Exact:
    return Exact()


def moments(posterior: ps.Posterior) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations of the logarithms."""
    logs = np.log(np.stack([posterior.columns[name] for name in ("a", "s")]))
    mean = logs @ posterior.weights
    return mean, np.sqrt((logs - mean[:, None]) ** 2 @ posterior.weights)


def check_moments(runs: list[ps.Posterior], exact: Exact, effective: float) -> None:
    """Means, standard deviations and evidence of runs together within 4 standard errors."""
    found = [moments(posterior) for posterior in runs]
    mean, sd = (np.mean([each[i] for each in found], axis=0) for i in (0, 1))
    relative = 1 / np.sqrt(effective * len(runs))
    assert np.all(np.abs(mean - exact.mean) < 4 * relative * exact.sd)
    # of a standard deviation: half the relative error of a variance, sqrt(2 / n) for a Gaussian
    assert np.all(np.abs(sd / exact.sd - 1) < 4 * relative / np.sqrt(2))
    evidence = np.exp([posterior.log_evidence - exact.log_evidence for posterior in runs])
    errors = np.array([posterior.log_evidence_error for posterior in runs])
    assert abs(evidence.mean() - 1) < 4 * np.sqrt(np.mean(errors**2) / len(runs))


def test_linear_models_have_the_exact_posterior(exact: Exact) -> None:
    """256 particles, moved three times at high acceptance, count as 128 at least."""
    runs = [run(seed) for seed in range(3)]
    check_moments(runs, exact, effective=128)
    assert all(posterior.sampling is not None and posterior.sampling.trusted for posterior in runs)


@pytest.mark.long
@pytest.mark.parametrize("guide", ["ekf", "none"])
def test_linear_models_have_the_exact_posterior_over_many_seeds(exact: Exact, guide: str) -> None:
    runs = [run(seed, solver=ParticleFilter(32, guide)) for seed in range(20)]
    check_moments(runs, exact, effective=128)


@pytest.mark.long
def test_few_points_are_doubled_and_the_posterior_stays_exact(exact: Exact) -> None:
    """Two points without a guide: hardly any move is accepted, until there are more."""
    settings = ParticleFilter(particles=2, guide="none", most=64)
    levels: list[int] = []
    posterior = run(0, solver=settings, notice=lambda state, step: levels.append(state.level))
    assert levels[0] == 0 and levels[-1] >= 3
    mean, _ = moments(posterior)
    evidence = posterior.log_evidence - exact.log_evidence
    assert np.all(np.abs(mean - exact.mean) < 4 * exact.sd / np.sqrt(64))  # a quarter of them is effective
    assert abs(evidence) < 4 * max(posterior.log_evidence_error, 0.1)


def assert_identical(one: ps.Posterior, other: ps.Posterior) -> None:
    np.testing.assert_array_equal(one.theta, other.theta)
    np.testing.assert_array_equal(one.weights, other.weights)
    np.testing.assert_array_equal(one.evidence_by_population, other.evidence_by_population)


def test_a_stream_is_a_batch(tmp_path: Path) -> None:
    """Whatever the portions, saved and loaded in between, while points are doubled."""
    given = {"solver": ParticleFilter(8, "none", most=16), "sampler": ps.Sampler(particles=64, recover=False)}
    batch = run(1, **given)
    online = ps.Identifier(MODEL, PRIORS, {"y": NOISE}, {"x": 0.0}, dt=STEP, seed=1, **given)
    outputs = RECORD.outputs["y"]
    for first, last in [(0, 1), (1, 2), (2, 17)]:
        online.update({}, {"y": outputs[first:last]})
    online.save(tmp_path / "stream.npz")
    online = ps.Identifier.load(tmp_path / "stream.npz", model=MODEL)
    online.update({}, {"y": outputs[17:]})
    assert_identical(online.posterior, batch)


class Interrupted(Exception):
    pass


def test_a_run_that_was_interrupted_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    def stop(state: Any, step: Any) -> None:
        if state.samples > SAMPLES // 2:
            raise Interrupted

    path = tmp_path / "run.npz"
    given = {"solver": ParticleFilter(8, "none", most=16), "sampler": ps.Sampler(particles=64)}
    with pytest.raises(Interrupted):
        run(2, checkpoint=path, checkpoint_seconds=0.0, notice=stop, **given)
    assert_identical(run(2, checkpoint=path, **given), run(2, **given))


COUNTS = ps.Model(
    {"x": 1},
    lambda s, u, p: {"x": p.rate * s.x},
    lambda s, u, p: {"count": ps.dist.Poisson(jnp.maximum(s.x, 1e-3))},
    diffusion=lambda s, u, p: {"x": p.sigma * jnp.sqrt(jnp.maximum(s.x, 0.0))},
)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"outputs": {"count": [3.0, 4.0, 2.5, 1.0]}}, r"'count' is 2.5 at sample 2 \(t = 1\), which no Poisson"),
        ({"outputs": {"count": [3.0, -4.0, 2.0, 1.0]}}, r"'count' is -4 at sample 1 .* a whole number, 0 or more"),
        ({"noise": {"count": 0.1}}, "gives as a distribution, its noise included"),
        ({"method": "map"}, "method is 'map', which needs the gradient"),
    ],
)
def test_bad_input_is_said_in_a_sentence(change: dict[str, Any], message: str) -> None:
    outputs = {"count": np.array(change.pop("outputs", {"count": [3.0, 4.0, 2.0, 1.0]})["count"])}
    priors = {"rate": ps.dist.Normal(0.0, 1.0), "sigma": ps.dist.LogNormal(0.0, 1.0)}
    with pytest.raises(ps.InputError, match=message):
        ps.identify(COUNTS, ps.Record(outputs=outputs, dt=0.5), priors, initial={"x": 3.0}, **change)


def test_streams_of_counts_say_which_sample_is_wrong() -> None:
    priors = {"rate": ps.dist.Normal(0.0, 1.0), "sigma": ps.dist.LogNormal(0.0, 1.0)}
    online = ps.Identifier(COUNTS, priors, {}, {"x": 3.0}, dt=0.5, sampler=ps.Sampler(particles=64))
    with pytest.raises(ps.InputError, match=r"'count' is 0\.5 at sample 1 of the new ones"):
        online.update({}, {"count": [1.0, 0.5]})
    with pytest.raises(ps.InputError, match="leave window out"):
        ps.Identifier(COUNTS, priors, {}, {"x": 3.0}, dt=0.5, window=100)


def test_states_follow_the_data_and_predictions_are_refused() -> None:
    posterior = run(0, sampler=ps.Sampler(particles=64))
    states = posterior.states(draws=16)
    assert states.paths["x"].shape == (16, SAMPLES) and set(states.mean) == {"x"}
    model = linear(*(float(np.exp(np.log(posterior.columns[name]) @ posterior.weights)) for name in ("a", "s")))
    mean, sd = model.smoothed(RECORD.outputs["y"][:, None])
    # the parameters' own uncertainty moves the states little: by half of their standard deviations at most
    assert np.all(np.abs(states.mean["x"] - mean[:, 0]) < 0.5 * np.maximum(sd[:, 0], 1e-9))
    for refused in (posterior.simulate, posterior.predict, posterior.forecast):
        with pytest.raises(ps.InputError, match="is not there for the model, whose equations have a diffusion"):
            refused(RECORD)
