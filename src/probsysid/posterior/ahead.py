"""Predictions from filtered states: some samples ahead of the data, and from the end of a training record on."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int, PyTree

from probsysid._internal.array_types import Index, Scalar
from probsysid.data.record import Record
from probsysid.model.model import Model
from probsysid.model.noise import NoiseValues
from probsysid.model.particle import Particle
from probsysid.odefilter.arrays.step import as_array_filter
from probsysid.odefilter.coloured_noise import coloured
from probsysid.odefilter.filter_inputs import prepare
from probsysid.odefilter.smoothing.backward_kernels import GaussianPath
from probsysid.odefilter.smoothing.chunking import LONGEST_CHUNK
from probsysid.odefilter.smoothing.trajectory import filter_chunks
from probsysid.posterior.initial_states import own_states
from probsysid.posterior.noise_draws import CarriedNoise
from probsysid.posterior.particle_values import Parameters, latent_start, output_noise, process_noise_of
from probsysid.posterior.simulate import Forces, IntervalInputs, Simulation, outputs_at, over_interval

if TYPE_CHECKING:
    from probsysid.posterior.posterior import Posterior

STARTS = 256
"""Samples from which predictions are made at a time."""

States = Float[np.ndarray, "component particle"]


def last_states(
    posterior: "Posterior",
    index: int,
    chosen: Int[np.ndarray, " particle"],
    parameters: Parameters,
    time: Float[np.ndarray, " sample"],
    seed: int,
) -> tuple[States, dict[str, CarriedNoise]]:
    """A draw of each particle's state at the last sample of a training record, given all its samples; and of coloured
    noise what is left of it at later times, of which the first is that sample's."""
    start = own_states(posterior, index, chosen, seed).values
    random = np.random.default_rng([seed, 8])
    for filtered in _filtered(posterior, posterior.records[index], start, chosen, parameters, random):
        last = filtered
    carried = _nothing_carried(posterior, chosen, len(time))
    for name, known in carried.items():
        known.remember(slice(None), last.noise[name][-1][:, None], time - time[0], _times(posterior, chosen)[name])
    return last.states[-1], carried


def _times(posterior: "Posterior", chosen: Int[np.ndarray, " particle"]) -> dict[str, np.ndarray]:
    """Correlation times of coloured noise by output."""
    noise = output_noise(posterior, chosen)
    found = {name: given.time for name, given in noise.items() if isinstance(given, NoiseValues)}
    return {name: np.asarray(time) for name, time in found.items() if time is not None}


def _nothing_carried(
    posterior: "Posterior", chosen: Int[np.ndarray, " particle"], samples: int
) -> dict[str, CarriedNoise]:
    return {name: CarriedNoise.unknown(len(chosen), samples) for name in _times(posterior, chosen)}


def steps_ahead(
    posterior: "Posterior", simulation: Simulation, start: States, parameters: Parameters, ahead: int, seed: int
) -> Simulation:
    """Outputs at each sample predicted from the data up to `ahead` samples before; the first ones from the start."""
    record, chosen, steps = simulation.record, simulation.chosen, simulation.steps
    model = posterior.setup.problem.model
    random = np.random.default_rng([seed, 8])
    outputs = {name: values.copy() for name, values in simulation.outputs.items()}
    inputs = IntervalInputs.of(model, record, steps)
    forces = process_noise_of(posterior, chosen)
    program = _ahead_program(model, steps, ahead)
    carried, times = _nothing_carried(posterior, chosen, record.samples), _times(posterior, chosen)
    for first, states, noise in _filtered(posterior, record, start, chosen, parameters, random):
        _carry(carried, noise, first, ahead, record.time, times)
        for place in range(0, len(states), STARTS):
            part = states[place : place + STARTS]
            begin = first + place
            count = min(len(part), record.samples - ahead - begin)
            if count <= 0:
                break
            filled = np.concatenate([part, np.repeat(part[-1:], STARTS - len(part), axis=0)])
            places = np.minimum(begin + np.arange(STARTS), record.samples - 1 - ahead)
            found = program(parameters, filled, Forces.of(model, forces, seed), inputs, places)
            for j, name in enumerate(model.output_names):
                outputs[name][:, begin + ahead : begin + ahead + count] = np.asarray(found)[:count, j].T
    return replace(simulation, outputs=outputs, carried=carried)


def _carry(
    carried: dict[str, CarriedNoise],
    noise: dict[str, Float[np.ndarray, "start particle"]],
    first: int,
    ahead: int,
    time: Float[np.ndarray, " sample"],
    times: dict[str, np.ndarray],
) -> None:
    """Write what is left of the noise at consecutive samples some samples later."""
    for name, known in carried.items():
        count = min(len(noise[name]), len(time) - ahead - first)
        if count > 0:
            places = slice(first + ahead, first + ahead + count)
            known.remember(places, noise[name][:count].T, time[places] - time[first : first + count], times[name])


class FilteredDraws(NamedTuple):
    """Draws at consecutive samples, each given the data up to it."""

    first: int
    """Index of the first of them."""
    states: Float[np.ndarray, "sample component particle"]
    noise: dict[str, Float[np.ndarray, "sample particle"]]
    """Coloured noise by output."""


def _filtered(
    posterior: "Posterior",
    record: Record,
    start: States,
    chosen: Int[np.ndarray, " particle"],
    parameters: Parameters,
    random: np.random.Generator,
) -> Iterator[FilteredDraws]:
    """Draws of the state at all samples, range by range."""
    problem, solver = posterior.setup.problem, posterior.setup.solver
    ode_filter = as_array_filter(solver.ode_filter(problem.model, record.jump_order))
    forces, kinds = process_noise_of(posterior, chosen), output_noise(posterior, chosen)
    own, latent = len(problem.given_model.physical_names), latent_start(posterior, chosen)
    particles = Particle(
        parameters={name: jnp.asarray(value) for name, value in parameters.items()},
        noise=[jax.tree.map(jnp.asarray, kinds[name]) for name in problem.model.output_names],
        initial_mean=[*(jnp.asarray(value) for value in start[:own]), *(jnp.zeros(len(chosen)) for _ in latent)],
        initial_sd=[*(jnp.zeros(len(chosen)) for _ in start[:own]), *map(jnp.asarray, latent)],
        process_noise=[None if n not in forces else jnp.asarray(forces[n]) for n in problem.model.coordinates]
        if forces
        else None,
    )
    samples = prepare(record, ode_filter, solver.steps)
    substeps = samples.grid.shape[1]
    size, physical = ode_filter.layout.size, ode_filter.layout.physical
    names = [problem.model.output_names[i] for i in coloured(particles.noise)]
    wanted = np.array([*physical, *range(size, size + len(names))])
    for chunk, results in filter_chunks(ode_filter, particles, samples, LONGEST_CHUNK):
        path: GaussianPath = jax.tree.map(np.asarray, results.points)
        every = slice(0, 1) if chunk.first == 0 else slice(substeps - 1, chunk.samples * substeps, substeps)
        mean, factor = path.mean[every][:, wanted], path.factor[every][:, wanted]
        normals = random.standard_normal((*factor.shape[:1], *factor.shape[2:]))
        drawn = mean + np.einsum("tijp,tjp->tip", factor, normals)
        noise = {name: drawn[:, len(physical) + j] for j, name in enumerate(names)}
        yield FilteredDraws(chunk.first, drawn[:, : len(physical)], noise)


@lru_cache(maxsize=16)
def _ahead_program(model: Model, steps: int, ahead: int) -> Callable[..., PyTree]:
    """The compiled prediction from several samples on: (start, output, particle)."""

    def one(
        parameters: Mapping[str, Scalar], state: Array, forces: Forces, inputs: IntervalInputs, place: Index
    ) -> Array:
        def interval(j: Index, state: Array) -> Array:
            index = place + 1 + j
            here = IntervalInputs(*(part[index] for part in inputs))
            return over_interval(model, steps, state, parameters, here, forces, steps * ((ahead + 1) * place + j))

        state = lax.fori_loop(0, ahead, interval, state)
        return outputs_at(model, state, inputs.now[place + ahead], parameters)

    particles = jax.vmap(one, in_axes=(-1, -1, -1, None, None), out_axes=-1)
    return jax.jit(jax.vmap(particles, in_axes=(None, 0, None, None, 0)))
