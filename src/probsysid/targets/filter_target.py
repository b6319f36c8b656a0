"""The posterior that the sampler explores, with energies from the ODE filter.

The sampler sees a vector in unconstrained coordinates and energies of ranges of samples.  Here that vector becomes
parameters, noise levels, initial states and model error, and every core filters its own share of the particles.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from threading import Event
from typing import Any, TypeVar

import jax
import numpy as np

from probsysid._internal.packed_tree import TreeSpec
from probsysid.model.parameter_space import ParameterSpace
from probsysid.model.particle import Particle
from probsysid.model.problem import Problem, QuantityRoles
from probsysid.odefilter.filter import ENERGY, VectorisedFilter, over_particles, totals
from probsysid.odefilter.packed_samples import PackedSamples
from probsysid.parallel.sharding import constrain_sharding, prefetch, replicate, rows_of
from probsysid.parallel.threads import concatenate, run_parallel, thread_slices
from probsysid.smc.adaptive_substeps import FIRST
from probsysid.smc.weights import finite_or_lost

CHUNK = 256
"""Samples that lie on the devices together, for a call of the filter to take some of."""

FEWEST_ROWS, MOST_ROWS = 8, 64
"""Samples whose energies one call gives; the more particles, the fewer (`MEMORY`).  A sweep needs none of them."""

MEMORY = 2_500_000
"""Bytes that those energies may take: they stay in cache, and a call still has far more to do than it costs."""

LONGEST_CALL = 2**20
"""Particle-samples that one call takes: 0.05 s for small systems, and a user who interrupts does not wait long."""

Result = TypeVar("Result")


class FilterTarget:
    """A `Target` for the sampler whose energies come from the ODE filter, over records one after the other."""

    def __init__(self, problem: Problem, particles: int):
        self.problem = problem
        self.particles = particles
        self.adaptive = problem.solver.substeps == "auto"
        self.substeps = 2**FIRST if self.adaptive else problem.solver.steps

    def at(self, level: int) -> "FilterTarget":
        """The same with 2**level integration steps a sampling interval."""
        raise NotImplementedError

    # What a kind of target has to know

    @property
    def filters(self) -> Sequence[VectorisedFilter]:
        """One filter a record."""
        raise NotImplementedError

    @property
    def data(self) -> Sequence[PackedSamples]:
        """Samples of each record, with room after them to fill the last chunk."""
        raise NotImplementedError

    @property
    def offsets(self) -> Sequence[int]:
        """Index of each record's first sample, and the end."""
        raise NotImplementedError

    def describe(self, sample: int) -> str:
        """How messages call a sample."""
        raise NotImplementedError

    # Target

    @property
    def samples(self) -> int:
        return self.offsets[-1]

    def sample_prior(self, key: Any, count: int) -> Any:
        return self.problem.space.sample(key, count)

    def log_prior(self, theta: Any) -> Any:
        return concatenate([self._particles(0, theta, place)[1] for place in thread_slices(theta.shape[-1])])

    def cost(self, stop: int) -> int:
        return stop

    def limit(self, first: int) -> int:
        return self._limit(first, self._at_once)

    @property
    def _at_once(self) -> int:
        return self.filters[0].rows or CHUNK

    def _limit(self, first: int, most: int) -> int:
        """The end of the longest range from `first` of at most so many samples, all in one chunk of one record."""
        record, local = self._locate(first)
        if local == 0:
            return first + 1
        ends = first + most, first + CHUNK - (local - 1) % CHUNK, self.offsets[record + 1]
        return min(ends)

    def advance(self, state: Any, theta: Any, first: int, last: int) -> tuple[Any, Any]:
        assert last <= self.limit(first), f"energies of samples {first} to {last} are more than fit into one call"

        def of_core(place: slice, _: Event) -> tuple[Any, np.ndarray]:
            end, energies = self._advance(_part(state, place), theta, place, first, last)
            return end, rows_of(energies, last - first)

        states, energies = zip(*self._each(of_core, theta, last), strict=True)
        return concatenate(states), concatenate(energies)

    def _each(self, of_core: Callable[[slice, Event], Result], theta: Any, stop: int) -> list[Result]:
        """What comes of every core's particles before some sample: at the same time, or one after the other as long as
        there are programs to be compiled."""
        tasks = [partial(of_core, place) for place in thread_slices(theta.shape[-1])]
        record, _ = self._locate(stop - 1)
        if all(filter.programs() for filter in self.filters[: record + 1]):
            return run_parallel(tasks)
        return [task(Event()) for task in tasks]

    def _advance(
        self, state: Any, theta: Any, place: slice, first: int, last: int, watched: int = ENERGY
    ) -> tuple[Any, Any]:
        """The state of some particles after some samples, and their energies or errors of an output, which may still be
        under way."""
        record, local = self._locate(first)
        particles, _ = self._particles(record, theta, place)
        if local == 0:
            return self.filters[record].start(particles, self.portion(record, 0, 1))
        row = (local - 1) % CHUNK
        samples = self.portion(record, local - row, local - row + CHUNK)
        return self.filters[record].advance(state, particles, samples, row, row + last - first, watched)

    def sweep(self, theta: Any, stop: int) -> tuple[Any, np.ndarray, np.ndarray]:
        """As `smc.target.browse`, without the energies and without waiting for every call: devices go on while the host
        looks at the last."""

        def of_core(place: slice, given_up: Event) -> tuple[Any, np.ndarray, np.ndarray]:
            ends = []
            for last, state in prefetch(self._sweep_ranges(theta, place, stop)):
                jax.block_until_ready(state)
                if given_up.is_set():
                    break
                if last == stop or last in self.offsets:
                    ends.append(totals(state))
            *finished, (earlier, newest) = ends or [np.empty((2, 0))]
            with np.errstate(invalid="ignore", over="ignore"):  # lost particles
                return state, sum((end.sum(axis=0) for end in finished), start=earlier), newest

        states, earlier, newest = zip(*self._each(of_core, theta, stop), strict=True)
        return concatenate(states), -finite_or_lost(concatenate(earlier)), finite_or_lost(concatenate(newest))

    def _sweep_ranges(self, theta: Any, place: slice, stop: int) -> Iterator[tuple[int, Any]]:
        """The ends of ranges and the states there, as soon as a device has been told to find them."""
        state, first = None, 0
        most = max(LONGEST_CALL // self.particles, self._at_once)
        while first < stop:
            last = min(self._limit(first, most), stop)
            state, _ = self._advance(state, theta, place, first, last)
            yield last, state
            first = last

    def portion(self, record: int, first: int, last: int) -> PackedSamples:
        """Some samples of a record, on all devices: every sweep asks for them.  They are sent again only if there are
        more of them than the last time; a stream writes on in the array that they are copied from."""
        end = min(last, self.offsets[record + 1] - self.offsets[record])
        known = self._portions.get((record, first))
        if known is None or known[0] != end:
            rows = self.data[record].changed(lambda numbers: replicate(numbers[first:last].copy(), self.particles))
            known = self._portions[record, first] = end, rows
        return known[1]

    @cached_property
    def _portions(self) -> dict[tuple[int, int], tuple[int, PackedSamples]]:
        return {}

    def _locate(self, sample: int) -> tuple[int, int]:
        """Record, and index in it."""
        record = bisect_right(self.offsets, sample) - 1
        return record, sample - self.offsets[record]

    def _particles(self, record: int, theta: Any, place: slice) -> tuple[Particle, Any]:
        """Some particles as the filter wants them, and their log prior.  The newest are kept: a sweep over the data
        asks for them chunk by chunk."""
        known, result = self._newest.get((record, place.start), (None, None))
        if result is None or not _the_same(known, theta):
            result = self._preparation(record)(_part(theta, place))
            self._newest[record, place.start] = theta, result
        return result

    def _preparation(self, record: int) -> Callable[[Any], tuple[Particle, Any]]:
        """The program for it, bound to what is fixed."""
        if record not in self._preparations:
            problem = self.problem
            form, numbers = TreeSpec.of(problem.fixed(record))
            put = partial(replicate, particles=self.particles)
            program = problem.space.program(_prepared, problem.roles(record), form, put=put)
            self._preparations[record] = partial(program, put(numbers))
        return self._preparations[record]

    @cached_property
    def _preparations(self) -> dict[int, Callable[[Any], tuple[Particle, Any]]]:
        return {}

    @cached_property
    def _newest(self) -> dict[tuple[int, int], tuple[Any, Any]]:
        return {}


def _part(values: Any, place: slice) -> Any:
    """Some particles of a matrix, which may lie on devices if they are all of them."""
    if values is None or place == slice(0, values.shape[-1]):
        return values
    return np.ascontiguousarray(np.asarray(values)[:, place])


def _the_same(known: Any, theta: Any) -> bool:
    """Whether two arrays are one, seen twice: nobody changes particles in place."""
    if known is theta:
        return True
    both = isinstance(known, np.ndarray) and isinstance(theta, np.ndarray)
    return both and known.__array_interface__ == theta.__array_interface__


def _prepared(
    roles: QuantityRoles, form: TreeSpec, space: ParameterSpace, numbers: Any, theta: Any
) -> tuple[Particle, Any]:
    """Particles as the filter wants them, and their log prior; what is fixed comes apart as form and numbers."""
    fixed = form.filled(numbers)
    make = over_particles(lambda free: roles.particle({**fixed, **space.values_of_one(free)}))
    return constrain_sharding(make(theta)), jax.vmap(space.log_prior_of_one, in_axes=-1)(theta)


def whole_chunks(samples: int) -> int:
    """As many samples, or a few more, as fill the first one's place and whole chunks after it."""
    return 1 + -(-max(samples - 1, 1) // CHUNK) * CHUNK


def at_once(particles: int) -> int:
    """Samples whose energies the filter gives at once for so many particles."""
    return int(np.clip(MEMORY // (8 * particles), FEWEST_ROWS, MOST_ROWS))
