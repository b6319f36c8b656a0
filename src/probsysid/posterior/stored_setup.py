"""The problem and the solver of a posterior as data, and back."""

from typing import Any

from probsysid._internal.errors import InputError, first_words
from probsysid._internal.plain_data import Codec, UnstorableError
from probsysid._internal.validation import check_kind
from probsysid.model.kernels import Constant, Matern, Product, QuasiPeriodic, RandomWalk, Sum
from probsysid.model.latent_processes import LatentProcesses
from probsysid.model.model import Model
from probsysid.model.noise import Noise
from probsysid.model.problem import Problem
from probsysid.model.stored_model import check_same_names, decode_model, encode_model, left_out
from probsysid.model.stored_priors import decode_part, encode_part
from probsysid.odefilter.diffusion import Dynamic, Fixed, Given, QuasiMLE
from probsysid.odefilter.linearise import EKF0, EKF1, BlockEKF1
from probsysid.odefilter.solver import Solver
from probsysid.particlefilter.settings import ParticleFilter

KERNELS = (Matern, QuasiPeriodic, RandomWalk, Constant, Sum, Product)

SOLVERS = (Solver, ParticleFilter, EKF0, EKF1, BlockEKF1, QuasiMLE, Dynamic, Fixed, Given)

SETTINGS = Codec((Noise, *KERNELS, *SOLVERS), encode_part, decode_part)
"""For priors, noise levels, initial values, kernels, and the solver with its algorithms."""


def encode_setup(problem: Problem, solver: Solver) -> dict[str, Any]:
    """Data for a problem and its solver.  What is code, and not data, is left out, and the data say why."""
    data: dict[str, Any] = {"model": encode_model(problem.given_model)}
    try:
        parts: dict[str, Any] = {
            "priors": problem.given_priors,
            "noise": problem.noise,
            "initials": list(problem.initials),
            "process_noise": problem.process_noise,
            "varies": problem.varies,
            "solver": solver,
        }
        if problem.latent:
            latent = problem.latent
            parts |= {"unknown": latent.unknown, "drifts": latent.drifts, "measured_inputs": latent.measured}
        return data | {name: SETTINGS.encode(part) for name, part in parts.items()}
    except UnstorableError as error:
        return data | {"left_out": str(error)}


def decode_setup(data: dict[str, Any], model: Model | None = None) -> tuple[Problem, Solver]:
    """The problem and its solver, with the model that was stored or the one given."""
    try:
        return _decoded(data, model)
    except InputError:
        raise
    except Exception as error:  # a file can hold anything
        raise InputError(f"its model or priors cannot be read ({first_words(error)}); load it with setup=...") from None


def _decoded(data: dict[str, Any], model: Model | None) -> tuple[Problem, Solver]:
    if "left_out" in data:
        reason = data["left_out"]
        raise InputError(f"it was saved without its priors and solver, since {reason}; load it with setup=...")
    if model is not None:
        check_same_names(data["model"], model)
    elif left_out(data["model"]):
        raise InputError(
            f"it was saved without its model, since {left_out(data['model'])}; load it with model=... of your program"
        )
    found = decode_model(data["model"]) if model is None else model
    names = ("priors", "noise", "initials", "process_noise", "solver")
    priors, noise, initials, errors, solver = (SETTINGS.decode(data[name]) for name in names)
    check_kind("solver", solver, Solver, "the file is damaged")
    varies = SETTINGS.decode(data["varies"]) if "varies" in data else {}
    given = (SETTINGS.decode(data[name]) if name in data else {} for name in ("unknown", "drifts", "measured_inputs"))
    latent = LatentProcesses.make(found, priors, *given)
    return Problem.make(found, priors, noise, initials, errors, varies, latent), solver


def can_decode(data: dict[str, Any], model: Model | None) -> bool:
    """Whether the data, with the model given, hold everything."""
    return "left_out" not in data and (model is not None or not left_out(data.get("model", {})))
