"""A target of the sampler with energies from the ODE filter: what batch and streaming targets share.

The sampler sees vectors in unconstrained coordinates and energies of ranges of samples.  Here these vectors become
parameters, noise levels, initial states and process noise, and the executor filters slices of the particles.
"""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from threading import Event
from typing import NamedTuple, TypeVar

import jax
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Float, Int, PyTree

from probsysid._internal.array_types import Numbers
from probsysid._internal.memory import check_memory
from probsysid._internal.packed_tree import TreeSpec
from probsysid.model.parameter_space import ParameterSpace, Theta
from probsysid.model.particle import Particle
from probsysid.model.problem import Problem, QuantityRoles
from probsysid.odefilter.filter import ENERGY, Packed, VectorisedFilter, over_particles, totals
from probsysid.odefilter.packed_samples import PackedSamples
from probsysid.odefilter.solver import Solver
from probsysid.parallel.executor import Executor, concatenate
from probsysid.parallel.sharding import constrain_sharding, prefetch, replicate, rows_of
from probsysid.particlefilter.keys import seeds_of
from probsysid.smc.adaptive_substeps import FIRST
from probsysid.smc.weights import finite_or_lost
from probsysid.targets.integrators import Integrator, PointFilters, integrator_of

Result = TypeVar("Result")


@dataclass(frozen=True)
class Batching:
    """How samples are grouped into calls of the filter.  No result depends on it."""

    chunk: int = 256
    """Samples that lie on the devices together; a call takes a range of them."""
    fewest_rows: int = 8
    most_rows: int = 64
    """Samples whose energies one call returns; the more particles, the fewer.  A sweep needs none of them."""
    memory: int = 2_500_000
    """Bytes that these energies may take: they stay in cache, and a call still has far more to do than it costs."""
    longest_call: int = 2**20
    """Particle-samples that one call takes: 0.05 s for small systems, so that an interruption is noticed soon."""

    def rows(self, particles: int) -> int:
        """Samples whose energies one call returns for this many particles."""
        return int(np.clip(self.memory // (8 * particles), self.fewest_rows, self.most_rows))

    def whole_chunks(self, samples: int) -> int:
        """The number of rows that hold the first sample and whole chunks after it."""
        return 1 + -(-max(samples - 1, 1) // self.chunk) * self.chunk


class PreparedParticles(NamedTuple):
    """A slice of the particles as the filter takes them."""

    particles: Particle
    log_prior: Float[Array, " particle"]


class Few(NamedTuple):
    """Fewer particles than usual among as many as usual, so that they need no programs of their own."""

    order: Int[np.ndarray, " usual"]
    """Which of them stands at each place: the first of each slice are they, the others count nothing."""
    places: Int[np.ndarray, " particle"]
    """Where each of them stands."""
    active: int
    """How many of each slice are computed."""

    @classmethod
    def of(cls, count: int, slices: Sequence[slice]) -> "Few":
        """Dealt out evenly over the slices."""
        shares = list(zip(np.array_split(np.arange(count), len(slices)), slices, strict=True))
        order = [np.resize(share if len(share) else [0], part.stop - part.start) for share, part in shares]
        places = [part.start + np.arange(len(share)) for share, part in shares]
        return cls(np.concatenate(order), np.concatenate(places), len(places[0]))


BYTES_PER_PARTICLE = 10_000
"""Of small models: a hundred thousand take a gigabyte."""


class FilterTarget(ABC):
    """Energies from the ODE filter, over records one after the other."""

    def __init__(
        self,
        problem: Problem,
        solver: Solver,
        particles: int,
        executor: Executor,
        integrator: Integrator | None = None,
        *,
        substeps: int | None = None,
        batching: Batching = Batching(),
    ):
        """`integrator` integrates in place of the solver; `substeps` overrides the solver's number of integration steps
        per sampling interval."""
        check_memory(f"{particles} particles", BYTES_PER_PARTICLE * particles)
        self.problem = problem
        self.solver = solver
        self.particles = particles
        self.executor = executor
        self.integrator = integrator or integrator_of(problem, solver)
        self.batching = batching
        self.estimated = isinstance(self.integrator, PointFilters)
        """Whether energies are estimates, by particle filters."""
        self.adaptive = solver.substeps == "auto" or self.estimated
        given = 2**FIRST if self.adaptive and not self.estimated else solver.steps
        self.substeps = given if substeps is None else substeps
        remote = executor.remote
        self.block = None if remote is None else remote.block(particles)
        """Particles per task on a cluster; None without one."""

    @property
    @abstractmethod
    def filters(self) -> Sequence[VectorisedFilter]:
        """One filter per record."""

    @property
    @abstractmethod
    def data(self) -> Sequence[PackedSamples]:
        """The samples of each record, padded to whole chunks."""

    @property
    @abstractmethod
    def offsets(self) -> Sequence[int]:
        """Index of each record's first sample, and the end."""

    @abstractmethod
    def describe(self, sample: int) -> str:
        """How messages name a sample."""

    @property
    def most_levels(self) -> int:
        """How many times points may be doubled."""
        integrator = self.integrator
        return integrator.settings.levels if isinstance(integrator, PointFilters) and integrator.random else 0

    def of_level(self, level: int) -> tuple[int, Integrator]:
        """Steps per sampling interval, and what integrates, at a level: twice as many steps at each, or points."""
        if isinstance(self.integrator, PointFilters):
            return self.substeps, self.integrator.at(level)
        return 2**level, self.integrator

    @property
    def at_once(self) -> int:
        """Particles that are usually evaluated at once."""
        return self.block or self.particles

    # The protocol of the sampler

    @property
    def samples(self) -> int:
        return self.offsets[-1]

    def sample_prior(self, key: jax.Array, count: int) -> Theta:
        return self.problem.space.sample(key, count)

    def log_prior(self, theta: Numbers) -> Numbers:
        return concatenate([prepared.log_prior for prepared in self._prepared(0, theta)])

    def cost(self, stop: int) -> int:
        return stop

    def limit(self, first: int) -> int:
        return self._limit(first, self._rows)

    def advance(self, state: PyTree, theta: Numbers, first: int, last: int) -> tuple[PyTree, Numbers]:
        assert last <= self.limit(first), f"energies of samples {first} to {last} are more than fit into one call"
        prepared = self._prepared(self._locate(first)[0], theta)

        def of_slice(index: int, part: slice, _: Event) -> tuple[PyTree, np.ndarray]:
            end, energies = self._advance(_columns(state, part), prepared[index], first, last)
            return end, rows_of(energies, last - first)

        states, energies = zip(*self._on_slices(of_slice, theta), strict=True)
        return concatenate(states), concatenate(energies)

    def sweep(self, theta: Numbers, stop: int) -> tuple[PyTree, np.ndarray, np.ndarray]:
        """All samples before `stop`, without returning each energy and without waiting for each call: devices compute
        while the host looks at an earlier result.  Fewer particles than usual take their share of the time."""
        some = self._few(theta.shape[-1])
        if some is None:
            return self._swept(theta, stop)
        state, likelihood, energy = self._swept(np.asarray(theta)[:, some.order], stop, some.active)
        return np.asarray(state)[:, some.places], likelihood[some.places], energy[some.places]

    def _few(self, count: int) -> "Few | None":
        """How so few particles are computed by the program of the usual number; None if they are not."""
        worthwhile = 2 * count <= self.particles and self.block is None and self.executor.mesh(self.particles) is None
        return Few.of(count, self.executor.slices(self.particles)) if worthwhile else None

    def _swept(self, theta: Numbers, stop: int, active: int | None = None) -> tuple[PyTree, np.ndarray, np.ndarray]:
        records = range(self._locate(stop - 1)[0] + 1)
        prepared = [self._prepared(record, theta) for record in records]

        def of_slice(index: int, part: slice, give_up: Event) -> tuple[PyTree, np.ndarray, np.ndarray]:
            ends = []
            for last, state in prefetch(self._ranges([of_record[index] for of_record in prepared], stop, active)):
                jax.block_until_ready(state)
                if give_up.is_set():
                    break
                if last == stop or last in self.offsets:
                    ends.append(totals(state))
            *finished, (earlier, newest) = ends or [np.empty((2, 0))]
            with np.errstate(invalid="ignore", over="ignore"):  # lost particles
                return state, sum((end.sum(axis=0) for end in finished), start=earlier), newest

        states, earlier, newest = zip(*self._on_slices(of_slice, theta), strict=True)
        return concatenate(states), -finite_or_lost(concatenate(earlier)), finite_or_lost(concatenate(newest))

    # Ranges of samples

    @property
    def _rows(self) -> int:
        """Samples whose energies one call returns."""
        return self.filters[0].rows or self.batching.chunk

    def _limit(self, first: int, most: int) -> int:
        """The end of the longest range from `first` of at most `most` samples, all in one chunk of one record."""
        record, local = self._locate(first)
        if local == 0:
            return first + 1
        chunk = self.batching.chunk
        return min(first + most, first + chunk - (local - 1) % chunk, self.offsets[record + 1])

    def _locate(self, sample: int) -> tuple[int, int]:
        """Record, and index in it."""
        record = bisect_right(self.offsets, sample) - 1
        return record, sample - self.offsets[record]

    def _ranges(
        self, prepared: Sequence[PreparedParticles], stop: int, active: int | None
    ) -> Iterator[tuple[int, PyTree]]:
        """The end of each range of a sweep and the state there, as soon as the device has been told to compute it."""
        state, first = None, self.offsets[0]
        most = max(self.batching.longest_call // self.at_once, self._rows)
        while first < stop:
            last = min(self._limit(first, most), stop)
            state, _ = self._advance(state, prepared[self._locate(first)[0]], first, last, active=active)
            yield last, state
            first = last

    def _advance(
        self,
        state: Packed | None,
        prepared: PreparedParticles,
        first: int,
        last: int,
        watched: int = ENERGY,
        active: int | None = None,
    ) -> tuple[Packed, Array]:
        """The state of some particles after a range, and their energies or the errors of the watched output.  Both may
        still be being computed."""
        record, local = self._locate(first)
        if local == 0:
            return self.filters[record].start(prepared.particles, self.portion(record, 0, 1))
        assert state is not None, "only the first sample of a record starts without a state"
        row = (local - 1) % self.batching.chunk
        samples = self.portion(record, local - row, local - row + self.batching.chunk)
        ends = row, row + last - first
        return self.filters[record].advance(state, prepared.particles, samples, *ends, watched, active)

    def portion(self, record: int, first: int, last: int) -> PackedSamples:
        """Samples of a record on all devices, kept because every sweep asks for them.  They are sent again only if
        there are more than the last time: a stream writes on in the array that they are copied from."""
        end = min(last, self.offsets[record + 1] - self.offsets[record])
        known = self._portions.get((record, first))
        if known is None or known[0] != end:
            packed = self.data[record].changed(lambda numbers: replicate(numbers[first:last].copy(), self._mesh))
            known = self._portions[record, first] = end, packed
        return known[1]

    @cached_property
    def _portions(self) -> dict[tuple[int, int], tuple[int, PackedSamples]]:
        return {}

    # Particles

    def _on_slices(self, of_slice: Callable[[int, slice, Event], Result], theta: Numbers) -> list[Result]:
        """Apply a function to every slice of the particles, by the executor."""
        parts = self.executor.slices(theta.shape[-1])
        return self.executor.run([partial(of_slice, index, part) for index, part in enumerate(parts)])

    def _prepared(self, record: int, theta: Numbers) -> list[PreparedParticles]:
        """Every slice of the particles as the filter takes it.  The newest are kept, since the sampler asks for the
        same particles range by range."""
        known = self._newest.get(record)
        if known is None or not np.array_equal(known[0], theta):
            slices = self.executor.slices(theta.shape[-1])
            known = np.array(theta), [self._prepare(record)(_columns(theta, part)) for part in slices]
            self._newest[record] = known
        return known[1]

    def _prepare(self, record: int) -> Callable[[Numbers], PreparedParticles]:
        """The program that prepares particles, bound to the quantities that are fixed."""
        if record not in self._preparations:
            spec, numbers = TreeSpec.pack(self.problem.fixed(record))
            put = partial(replicate, mesh=self._mesh)
            roles = self.problem.roles(record)
            program = self.problem.space.program(_prepare, roles, spec, self.executor, self.estimated, put=put)
            self._preparations[record] = partial(program, put(numbers))
        return self._preparations[record]

    @cached_property
    def _preparations(self) -> dict[int, Callable[[Numbers], PreparedParticles]]:
        return {}

    @cached_property
    def _newest(self) -> dict[int, tuple[np.ndarray, list[PreparedParticles]]]:
        return {}

    @cached_property
    def _mesh(self) -> Mesh | None:
        return self.executor.mesh(self.particles)


def _columns(values: PyTree, part: slice) -> PyTree:
    """Some particles of a matrix, which may stay on its devices if they are all of them."""
    if values is None or part == slice(0, values.shape[-1]):
        return values
    return np.ascontiguousarray(np.asarray(values)[:, part])


def _prepare(
    roles: QuantityRoles,
    spec: TreeSpec,
    executor: Executor,
    estimated: bool,
    space: ParameterSpace,
    numbers: Numbers,
    theta: Numbers,
) -> PreparedParticles:
    """Particles as the filter takes them, and their log prior; fixed quantities come as numbers for a spec."""
    fixed = spec.unpack(numbers)
    make = over_particles(lambda free: roles.particle({**fixed, **space.values_of_one(free)}))
    particles = make(theta)._replace(seed=seeds_of(theta) if estimated else None)
    log_prior = jax.vmap(space.log_prior_of_one, in_axes=-1)(theta)
    return PreparedParticles(constrain_sharding(particles, executor.mesh(theta.shape[-1])), log_prior)
