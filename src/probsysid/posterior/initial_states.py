"""Where a simulation or a prediction starts: the state of every particle at the first sample of a record.

It is given, or the particle's own on a training record, or estimated from the first samples of the record.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

import jax
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Float, Int

from probsysid._internal.errors import InputError, did_you_mean
from probsysid._internal.validation import check_count, shown
from probsysid.data.record import Record
from probsysid.model.initial_state import check_initial_names, gaussian_moments
from probsysid.model.model import Model
from probsysid.model.priors import Prior
from probsysid.posterior.initial_estimate import InitialPrior, estimate_states
from probsysid.posterior.particle_values import (
    Parameters,
    latent_start,
    output_noise,
    parameters_of,
    process_noise_of,
)
from probsysid.posterior.simulate import simulate

if TYPE_CHECKING:
    from probsysid.posterior.posterior import Posterior

Initial = Mapping[str, Prior] | Literal["estimate"] | None
"""An initial state by component, or how to find it: see `Posterior.simulate`."""

ESTIMATE = "estimate"

LATENT = 9
"""Number of the random stream from which first values of unknown inputs and drifts are drawn."""

SAMPLES = 50
"""Samples from which an initial state is estimated unless told otherwise; at most a quarter of the record."""

TRAJECTORIES = 8
"""Particles whose motion on the training record tells which states are to be expected."""

CANDIDATES = 16
"""States of these motions from which the estimation sets out."""

WIDENING = 3.0
"""Standard deviation of an estimated initial state before the samples, relative to that over the training record."""


class InitialStates(NamedTuple):
    """States at the first sample, and where they come from."""

    values: Float[np.ndarray, "component particle"]
    origin: str
    """As in "the simulation starts from ..."."""
    used: int = 0
    """Number of samples, from the first on, whose outputs were used."""


def initial_states(
    posterior: "Posterior",
    record: Record,
    initial: Initial,
    samples: int | None,
    chosen: Int[np.ndarray, " particle"],
    parameters: Parameters,
    seed: int,
) -> InitialStates:
    """The states from which the chosen particles start on a record, with their parameters on it; the other arguments
    are those of `Posterior.simulate`."""
    if isinstance(initial, Mapping):
        return _given(posterior, initial, chosen, seed)
    if initial is not None and not (isinstance(initial, str) and initial == ESTIMATE):
        hint = did_you_mean(str(initial), (ESTIMATE,))
        raise InputError(f"initial is {shown(initial)}; it must map names to values, or be 'estimate'.{hint}")
    index = trained_from_the_same_start(posterior, record) if initial is None else None
    if index is not None:
        return own_states(posterior, index, chosen, seed)
    return _estimated(posterior, record, samples, chosen, parameters, seed)


def own_states(posterior: "Posterior", index: int, chosen: Int[np.ndarray, " particle"], seed: int) -> InitialStates:
    """Each particle's initial state on a training record, tied to its parameters as the posterior has it; unknown
    inputs and drifts are drawn anew."""
    problem = posterior.setup.problem
    fixed = problem.fixed(index)
    names = [problem.initial_name(index, name) for name in problem.given_model.physical_names]
    values = [
        posterior.values[name][chosen] if name in posterior.values else np.full(len(chosen), float(fixed[name]))
        for name in names
    ]
    states = np.concatenate([np.stack(values), drawn_latent_start(posterior, chosen, seed)])
    return InitialStates(states, "each particle's own initial state")


def drawn_latent_start(
    posterior: "Posterior", chosen: Int[np.ndarray, " particle"], seed: int
) -> Float[np.ndarray, "component particle"]:
    """First values of the components of unknown inputs and drifts, as nothing but their kernels says."""
    spread = latent_start(posterior, chosen)
    return spread * np.random.default_rng([seed, LATENT]).standard_normal(spread.shape)


def trained_from_the_same_start(posterior: "Posterior", record: Record) -> int | None:
    """The training record that begins with the same samples, if there is one."""
    for index, trained in enumerate(posterior.records):
        count = min(record.samples, trained.samples)
        same = np.array_equal(record.time[:count], trained.time[:count]) and record.output_names == trained.output_names
        if same and all(
            np.array_equal(record.outputs[name][:count], trained.outputs[name][:count], equal_nan=True)
            for name in record.output_names
        ):
            return index
    return None


def _given(
    posterior: "Posterior", initial: Mapping[str, Prior], chosen: Int[np.ndarray, " particle"], seed: int
) -> InitialStates:
    """Unknown inputs and drifts that have no entry are drawn anew."""
    problem = posterior.setup.problem
    names = problem.model.physical_names
    check_initial_names(problem.model, initial)
    for name in problem.given_model.physical_names:
        if name not in initial:
            raise InputError(f"initial has no entry for {name!r}; give a number, a prior, or initial='estimate'.")
    own = len(problem.given_model.physical_names)
    keys = [*jax.random.split(jax.random.key(seed), own), *jax.random.split(jax.random.key(seed), len(names))[own:]]
    anew = dict(zip(names[own:], drawn_latent_start(posterior, chosen, seed), strict=True))
    values = [
        _drawn(name, initial[name], key, len(chosen)) if name in initial else anew[name]
        for name, key in zip(names, keys, strict=True)
    ]
    return InitialStates(np.stack(values), "the given initial state")


def _drawn(name: str, value: Prior, key: jax.Array, count: int) -> Float[np.ndarray, " particle"]:
    if isinstance(value, dist.Distribution):
        return np.asarray(value.sample(key, (count,)), dtype=float)
    return np.full(count, gaussian_moments(name, value)[0])


def _estimated(
    posterior: "Posterior",
    record: Record,
    samples: int | None,
    chosen: Int[np.ndarray, " particle"],
    parameters: Parameters,
    seed: int,
) -> InitialStates:
    model = posterior.setup.problem.model
    if samples is not None:
        check_count("initial_samples", samples)
    count = min(samples or min(SAMPLES, max(record.samples // 4, 1)), record.samples)
    first = record[:count]
    if not any(np.isfinite(first.outputs[name]).any() for name in model.output_names if name in first.outputs):
        names = ", ".join(f"{name!r}: ..." for name in posterior.setup.problem.given_model.physical_names)
        raise InputError(
            f"the record has no measured output among its first {count} samples to estimate its initial state from; "
            f"say where it starts with initial={{{names}}}."
        )
    values = estimate_states(
        model,
        parameters,
        output_noise(posterior, chosen),
        process_noise_of(posterior, chosen),
        first,
        _expected_states(posterior, seed, chosen),
        seed,
    )
    return InitialStates(values, f"the state estimated from the first {count} samples", count)


def _expected_states(posterior: "Posterior", seed: int, of: Int[np.ndarray, " particle"]) -> InitialPrior:
    """States along the free runs of some particles on the training records, or where they start if that fails; unknown
    inputs and drifts as all these particles together expect them."""
    problem = posterior.setup.problem
    states_model = with_states_alone(problem.model)
    chosen = np.argsort(-posterior.weights, kind="stable")[:TRAJECTORIES]
    found = []
    for index in range(len(problem.initials)):
        start = own_states(posterior, index, chosen, seed).values
        found.append(start)
        if index < len(posterior.records):
            parameters = parameters_of(posterior, chosen, index, seed)
            outputs, _, _ = simulate(states_model, parameters, start, posterior.records[index])
            found.append(np.stack(list(outputs.values())).reshape(len(start), -1))
    states = np.concatenate(found, axis=1)
    states = states[:, np.all(np.isfinite(states), axis=0)]
    spread = np.std(states, axis=1)
    size = np.max(np.abs(states), axis=1)
    scale = WIDENING * np.where(spread > 0, spread, np.where(size > 0, size, 1.0))
    places = np.random.default_rng([seed, 7]).integers(states.shape[1], size=CANDIDATES)
    mean, candidates = np.mean(states, axis=1), states[:, places]
    own = len(problem.given_model.physical_names)
    latent = np.sqrt(np.mean(latent_start(posterior, of) ** 2, axis=1))
    scale[own:], mean[own:], candidates[own:] = np.where(latent > 0, latent, 1e-12), 0.0, 0.0
    return InitialPrior(mean, scale, candidates)


def with_states_alone(model: Model) -> Model:
    """The same dynamics, with the physical components as outputs."""
    return Model(model.coordinates, model.dynamics, lambda s, u, p: {n: s[n] for n in model.physical_names})
