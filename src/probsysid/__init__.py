"""Bayesian identification of nonlinear ODE models from sampled data, with the integration error counted in."""

from probsysid._internal import interrupts

interrupts.end_quietly_while_importing()

from probsysid._internal import jax_setup  # noqa: E402

jax_setup.configure()

from probsysid import dist  # noqa: E402
from probsysid._internal.errors import (  # noqa: E402
    ClusterError,
    ClusterWarning,
    InputError,
    ModelWarning,
    SamplingError,
    SamplingWarning,
)
from probsysid._version import __version__  # noqa: E402
from probsysid.data.record import Record  # noqa: E402
from probsysid.inference.identify import identify  # noqa: E402
from probsysid.inference.online import Identifier  # noqa: E402
from probsysid.inference.solve import Solution, solve  # noqa: E402
from probsysid.model.model import Model  # noqa: E402
from probsysid.model.noise import Noise  # noqa: E402
from probsysid.odefilter.diffusion import Dynamic, Fixed, QuasiMLE  # noqa: E402
from probsysid.odefilter.linearise import EKF0, EKF1  # noqa: E402
from probsysid.odefilter.solver import Solver  # noqa: E402
from probsysid.parallel.cluster import Cluster  # noqa: E402
from probsysid.parallel.threads import Threads  # noqa: E402
from probsysid.posterior.map import find_map  # noqa: E402
from probsysid.posterior.posterior import Posterior  # noqa: E402
from probsysid.smc.options import Sampler  # noqa: E402

__all__ = [
    "EKF0",
    "EKF1",
    "Cluster",
    "ClusterError",
    "ClusterWarning",
    "Dynamic",
    "Fixed",
    "Identifier",
    "InputError",
    "Model",
    "ModelWarning",
    "Noise",
    "Posterior",
    "QuasiMLE",
    "Record",
    "Sampler",
    "SamplingError",
    "SamplingWarning",
    "Solution",
    "Solver",
    "Threads",
    "__version__",
    "dist",
    "find_map",
    "identify",
    "solve",
]
