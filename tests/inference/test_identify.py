"""Identification through models and records: an oscillator with a closed form, and what makes two problems differ."""

from functools import cached_property
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import probsysid as ps
from probsysid import dist
from probsysid.inference.run_fingerprint import problem_fingerprint
from probsysid.model.problem import Problem
from probsysid.parallel.default import default_executor
from probsysid.targets.batch_target import BatchTarget
from tests.odefilter.bruteforce import Joint, joint_gaussian
from tests.odefilter.cases import Case
from tests.smc.conjugate import Exact, Regression, assert_exact

DIFFUSION, NOISE = 0.8, 0.2
PRIOR_MEAN, PRIOR_SD = np.array([1.0, 0.0, 0.2, 1.0]), np.array([0.5, 2.0, 0.3, 0.4])
SOLVER = ps.Solver(smoothness=3, substeps=1, diffusion=DIFFUSION)

model = ps.Model(
    {"x": 2},
    lambda s, u, p: {"x": p.gain * u.force + p.offset - 0.3 * s.dx - 2.0 * s.x},
    lambda s, u, p: {"position": s.x},
)


class Oscillator:
    """An oscillator pushed with an unknown gain and offset from an unknown state: given these, the data are Gaussian
    with a mean that is linear in them.  One QR decomposition of all states of all steps makes it linear regression.
    """

    samples = 10

    def __init__(self) -> None:
        random = np.random.default_rng(0)
        force = random.standard_normal(self.samples)
        time = 0.4 * np.arange(self.samples)
        data = np.sin(1.4 * time) + NOISE * random.standard_normal(self.samples)
        self.record = ps.Record(inputs={"force": force}, outputs={"position": data}, dt=0.4)
        priors = {"gain": dist.Normal(1.0, 0.5), "offset": dist.Normal(0.0, 2.0)}
        initial = {"x": dist.Normal(0.2, 0.3), "dx": dist.Normal(1.0, 0.4)}
        self.problem = Problem.make(model, priors, {"position": NOISE}, [initial], None)

    @cached_property
    def experiment(self) -> BatchTarget:
        return BatchTarget(self.problem, SOLVER, (self.record,), 1024, default_executor())

    def target(self) -> BatchTarget:
        return self.experiment

    def features(self, theta: np.ndarray) -> np.ndarray:
        return theta

    def joint(self, gain: float, offset: float, x: float, dx: float) -> Joint:
        """All states of all steps for given parameters and start."""
        case = Case(
            model=model,
            smoothness=(3,),
            time=np.asarray(self.record.time),
            outputs=np.asarray(self.record.outputs["position"])[:, None],
            noise=np.full((1, 1), NOISE),
            initial_mean=np.array([[x], [dx]]),
            initial_sd=np.zeros((2, 1)),
            parameters={"gain": np.array([gain]), "offset": np.array([offset])},
            grid=self.record.input_grid(1),
            inputs=self.record.input_derivatives(4),
            restarts=True,
        )
        return joint_gaussian(case, np.full((self.samples - 1, 1), DIFFUSION**2))

    @cached_property
    def exact(self) -> Exact:
        """Whitened data are linear in the parameters, with unit noise."""
        joints = [self.joint(*point) for point in (np.zeros(4), *np.eye(4))]
        data = [i for i, sample in enumerate(joints[0].samples) if sample is not None]
        assert [joints[0].samples[i] for i in data] == list(range(self.samples))
        parts = [joint.decomposed(len(joint.rows)) for joint in joints]
        whites = np.stack([white[data] for _, _, white in parts])
        scales = np.abs(np.diag(parts[0][1]))[data]
        design = -(whites[1:] - whites[0]).T
        regression = Regression(design, whites[0], np.ones(self.samples), PRIOR_MEAN, PRIOR_SD)
        exact = regression.exact
        return Exact(exact.mean, exact.covariance, exact.log_evidence - np.cumsum(np.log(scales)))


@pytest.fixture(scope="module")
def oscillator() -> Oscillator:
    return Oscillator()


def test_the_closed_form_is_the_filters(oscillator: Oscillator) -> None:
    """Energies of one particle against the joint Gaussian, before any sampling."""
    point = (0.7, -1.1, 0.3, 0.8)
    theta = np.repeat(np.array(point)[:, None], 1024, axis=1)
    state, first = oscillator.experiment.advance(None, theta, 0, 1)
    _, rest = oscillator.experiment.advance(state, theta, 1, oscillator.samples)
    found = np.concatenate([first[:1, 0], rest[: oscillator.samples - 1, 0]])
    # the same Gaussian in two ways, each with half the digits of a double to spare
    np.testing.assert_allclose(found, oscillator.joint(*point).energies(oscillator.samples), rtol=1e-8)


@pytest.mark.parametrize("path", ["data", "likelihood"])
def test_linear_oscillator(oscillator: Oscillator, path: Any) -> None:
    """Mean, covariance and evidence after every sample, over 20 seeds."""
    assert_exact(oscillator, ps.Sampler(particles=1024, islands=2, path=path))


# What makes two problems differ


def mark(model: ps.Model = model, **changes: Any) -> str:
    given = {
        "priors": {"gain": dist.Normal(1.0, 0.5), "offset": dist.Normal(0.0, 2.0)},
        "noise": {"position": 0.1},
        "initials": [{"x": 0.0, "dx": dist.Normal(0.0, 1.0)}],
        "solver": SOLVER,
        "process_noise": None,
        "sampler": ps.Sampler(),
        "seed": 0,
        "data": np.arange(3.0),
        **changes,
    }
    settings = [given.pop(name) for name in ("solver", "sampler", "seed", "data")]
    return problem_fingerprint(Problem.make(model, **given), *settings)


def affine(slope: float) -> dist.Distribution:
    return dist.TransformedDistribution(dist.Normal(0.0, 1.0), dist.transforms.AffineTransform(1.0, slope))


TABLE = np.linspace(0, 1, 5)


def with_table(values: np.ndarray) -> ps.Model:
    """A model that looks numbers up in an array it closes over."""
    return ps.Model(
        {"x": 2},
        lambda s, u, p: {"x": p.gain * jnp.interp(s.x, TABLE, values) + p.offset},
        lambda s, u, p: {"position": s.x},
    )


DIFFERENT = {
    "prior, in the seventh digit": {"priors": {"gain": dist.Normal(1.00000001, 0.5), "offset": dist.Normal(0.0, 2.0)}},
    "fixed parameter": {"priors": {"gain": dist.Normal(1.0, 0.5), "offset": 2.0}},
    "noise": {"noise": {"position": 0.1 + 1e-12}},
    "noise prior": {"noise": {"position": dist.LogNormal(0.0, 1.0)}},
    "initial": {"initials": [{"x": 0.0, "dx": dist.Normal(0.0, 1.0 + 1e-9)}]},
    "exactly known initial": {"initials": [{"x": 0.0, "dx": 0.0}]},
    "process noise": {"process_noise": {"x": 1.0}},
    "solver": {"solver": ps.Solver(smoothness=4, substeps=1, diffusion=DIFFUSION)},
    "sampler": {"sampler": ps.Sampler(move="student")},
    "seed": {"seed": 1},
    "data": {"data": np.array([0.0, 1.0, 2.0 + 1e-15])},
    "a transformed prior": {"priors": {"gain": affine(2.0), "offset": dist.Normal(0.0, 2.0)}},
    "another transformed prior": {"priors": {"gain": affine(3.0), "offset": dist.Normal(0.0, 2.0)}},
    "truncated": {"priors": {"gain": dist.TruncatedNormal(1.0, 0.5, low=0.0), "offset": dist.Normal(0.0, 2.0)}},
    "truncated elsewhere": {
        "priors": {"gain": dist.TruncatedNormal(1.0, 0.5, low=0.1), "offset": dist.Normal(0.0, 2.0)}
    },
    "a constant of the model": {
        "model": ps.Model(
            {"x": 2},
            lambda s, u, p: {"x": p.gain * u.force + p.offset - 0.3 * s.dx - (2.0 + 1e-12) * s.x},
            lambda s, u, p: {"position": s.x},
        )
    },
    "a model with a table": {"model": with_table(TABLE**2)},
    "a model with another table": {"model": with_table(TABLE**3)},
}


def test_the_same_problem_has_the_same_mark() -> None:
    assert mark() == mark()
    again = ps.Model(
        {"x": 2},
        lambda s, u, p: {"x": p.gain * u.force + p.offset - 0.3 * s.dx - 2.0 * s.x},
        lambda s, u, p: {"position": s.x},
    )
    assert mark() == mark(again)


def test_whatever_changes_the_numbers_changes_the_mark() -> None:
    marks = {"none": mark(), **{name: mark(**changes) for name, changes in DIFFERENT.items()}}
    alike = [(a, b) for a in marks for b in marks if a < b and marks[a] == marks[b]]
    assert not alike
