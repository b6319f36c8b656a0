"""Bayesian identification of nonlinear ODE models from sampled data, with the integration error counted in."""

from probsysid import _runtime

_runtime.configure()

from probsysid import dist  # noqa: E402
from probsysid._version import __version__  # noqa: E402
from probsysid.errors import InputError  # noqa: E402
from probsysid.model import Model  # noqa: E402
from probsysid.odefilter.calibrate import Dynamic, Fixed, QuasiMLE  # noqa: E402
from probsysid.odefilter.linearise import EKF0, EKF1  # noqa: E402
from probsysid.odefilter.solver import Solver  # noqa: E402
from probsysid.record import Record  # noqa: E402
from probsysid.solve import Solution, solve  # noqa: E402

__all__ = [
    "EKF0",
    "EKF1",
    "Dynamic",
    "Fixed",
    "InputError",
    "Model",
    "QuasiMLE",
    "Record",
    "Solution",
    "Solver",
    "__version__",
    "dist",
    "solve",
]
