"""Bayesian identification of nonlinear ODE models from sampled data, with the integration error counted in.

Public names are imported when they are first used: `import probsysid` takes 0.03 s, not 1.5
(docs/decisions.md).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from probsysid._internal import interrupts, jax_import

interrupts.end_quietly_while_importing()
jax_import.configure_jax()

from probsysid._internal.errors import (  # noqa: E402
    ClusterError,
    ClusterWarning,
    InputError,
    ModelWarning,
    SamplingError,
    SamplingWarning,
)
from probsysid._version import __version__  # noqa: E402

if TYPE_CHECKING:  # for type checkers and editors; LATE says the same at run time
    from probsysid import dist
    from probsysid.data.record import Record
    from probsysid.inference.identify import identify
    from probsysid.inference.likelihood import log_likelihood
    from probsysid.inference.online import Identifier
    from probsysid.inference.solve import Solution, solve
    from probsysid.live.session import Live
    from probsysid.live.settings import LiveOptions
    from probsysid.model.kernels import Constant, Matern, QuasiPeriodic, RandomWalk
    from probsysid.model.model import Model
    from probsysid.model.noise import Noise
    from probsysid.odefilter.diffusion import Dynamic, Fixed, QuasiMLE
    from probsysid.odefilter.linearise import EKF0, EKF1, BlockEKF1
    from probsysid.odefilter.solver import Solver
    from probsysid.parallel.cluster import Cluster
    from probsysid.parallel.threads import Threads
    from probsysid.particlefilter.settings import ParticleFilter
    from probsysid.posterior.map import find_map
    from probsysid.posterior.posterior import Posterior
    from probsysid.posterior.prior_from import prior_from
    from probsysid.selection.catalogue import catalogue_term
    from probsysid.selection.options import SearchOptions
    from probsysid.selection.result import Selection
    from probsysid.selection.select import select
    from probsysid.selection.terms import Term, Terms
    from probsysid.smc.options import Sampler

LATE = {
    "EKF0": "odefilter.linearise",
    "BlockEKF1": "odefilter.linearise",
    "EKF1": "odefilter.linearise",
    "Cluster": "parallel.cluster",
    "Constant": "model.kernels",
    "Dynamic": "odefilter.diffusion",
    "Fixed": "odefilter.diffusion",
    "Identifier": "inference.online",
    "Live": "live.session",
    "LiveOptions": "live.settings",
    "Matern": "model.kernels",
    "Model": "model.model",
    "Noise": "model.noise",
    "ParticleFilter": "particlefilter.settings",
    "Posterior": "posterior.posterior",
    "QuasiMLE": "odefilter.diffusion",
    "QuasiPeriodic": "model.kernels",
    "RandomWalk": "model.kernels",
    "Record": "data.record",
    "Sampler": "smc.options",
    "SearchOptions": "selection.options",
    "Selection": "selection.result",
    "Solution": "inference.solve",
    "Solver": "odefilter.solver",
    "Term": "selection.terms",
    "Terms": "selection.terms",
    "Threads": "parallel.threads",
    "catalogue_term": "selection.catalogue",
    "dist": "dist",
    "find_map": "posterior.map",
    "identify": "inference.identify",
    "log_likelihood": "inference.likelihood",
    "prior_from": "posterior.prior_from",
    "select": "selection.select",
    "solve": "inference.solve",
}
"""Public names, with the modules that define them."""

__all__ = [
    "EKF0",
    "EKF1",
    "BlockEKF1",
    "Cluster",
    "ClusterError",
    "ClusterWarning",
    "Constant",
    "Dynamic",
    "Fixed",
    "Identifier",
    "InputError",
    "Live",
    "LiveOptions",
    "Matern",
    "Model",
    "ModelWarning",
    "Noise",
    "ParticleFilter",
    "Posterior",
    "QuasiMLE",
    "QuasiPeriodic",
    "RandomWalk",
    "Record",
    "Sampler",
    "SamplingError",
    "SamplingWarning",
    "SearchOptions",
    "Selection",
    "Solution",
    "Solver",
    "Term",
    "Terms",
    "Threads",
    "__version__",
    "catalogue_term",
    "dist",
    "find_map",
    "identify",
    "log_likelihood",
    "prior_from",
    "select",
    "solve",
]


def __getattr__(name: str) -> Any:
    if name not in LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"{__name__}.{LATE[name]}")
    value = module if name == "dist" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
