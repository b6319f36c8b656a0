"""A model, records and priors put together: the posterior that the sampler explores.

The sampler sees a vector in unconstrained coordinates and energies of ranges of samples.  Here that vector becomes
parameters, noise levels, initial states and model error, and energies come from the ODE filter.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from threading import Event
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Float

from probsysid.checks import is_finite
from probsysid.errors import InputError, did_you_mean
from probsysid.form import Form
from probsysid.initial_state import check_initial_names, gaussian_moments
from probsysid.model import Model
from probsysid.odefilter.cores import joined, shares, together
from probsysid.odefilter.devices import ahead, constrained, everywhere, rows_of
from probsysid.odefilter.filter import ENERGY, Filter, filter_for, over_particles, totals
from probsysid.odefilter.rows import Rows
from probsysid.odefilter.samples import measured, prepare, with_room
from probsysid.odefilter.solver import Solver
from probsysid.odefilter.step import Particle
from probsysid.record import Record
from probsysid.smc.accuracy import FIRST
from probsysid.smc.space import Space
from probsysid.smc.weights import finite_or_lost

CHUNK = 256
"""Samples that lie on the devices together, for a call of the filter to take some of."""

FEWEST_ROWS, MOST_ROWS = 8, 64
"""Samples whose energies one call gives; the more particles, the fewer (`MEMORY`).  A sweep needs none of them."""

MEMORY = 2_500_000
"""Bytes that those energies may take: they stay in cache, and a call still has far more to do than it costs."""

LONGEST_CALL = 2**20
"""Particle-samples that one call takes: 0.05 s for small systems, and a user who interrupts does not wait long."""

Number = Any

Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class Question:
    """What is asked: everything but the data.  Checked and laid out once, for batch and online alike."""

    model: Model
    solver: Solver
    priors: Mapping[Any, Any]
    noise: Mapping[str, Any]
    initials: Sequence[Mapping[str, Any]]
    model_error: Mapping[str, Any]

    @classmethod
    def make(
        cls,
        model: Model,
        solver: Solver,
        priors: Mapping[Any, Any],
        noise: Mapping[str, Any],
        initials: Sequence[Mapping[str, Any]],
        model_error: Mapping[str, Any] | None,
    ) -> "Question":
        """Check every name and kind before anything compiles."""
        model_error = {**dict(solver.model_error), **(model_error or {})}
        _check_priors(model, priors)
        _check_levels("noise", noise, model.output_names)
        _check_levels("model_error", model_error, tuple(model.coordinates))
        for initial in initials:
            check_initial_names(model, initial)
            for name in model.physical_names:
                if name not in initial:
                    raise InputError(
                        f"initial has no entry for {name!r}; give a number if it is known, or dist.Normal(mean, sd)."
                    )
                if isinstance(initial[name], dist.Normal) or not isinstance(initial[name], dist.Distribution):
                    gaussian_moments(name, initial[name])
        return cls(model, solver, dict(priors), dict(noise), [dict(i) for i in initials], model_error)

    @cached_property
    def space(self) -> Space:
        """Everything that has a prior.

        Gaussian initial values are sampled as well: inside the filter they would be conditioned on the ODE, which says
        something about them that it should not (docs/decisions.md).
        """
        sampled: dict[Any, Any] = {n: p for n, p in self.priors.items() if isinstance(p, dist.Distribution)}
        sampled |= {f"noise.{n}": p for n, p in self.noise.items() if isinstance(p, dist.Distribution)}
        sampled |= {f"model_error.{n}": p for n, p in self.model_error.items() if isinstance(p, dist.Distribution)}
        for r, initial in enumerate(self.initials):
            for name, prior in initial.items():
                if isinstance(prior, dist.Distribution):
                    sampled[self.initial_name(r, name)] = prior
        if not sampled:
            raise InputError("there is nothing to identify: every parameter, noise level and initial value is fixed.")
        return Space.from_priors(sampled)

    def initial_name(self, record: int, component: str) -> str:
        """How a sampled initial value is called in tables."""
        return f"initial.{component}" if len(self.initials) == 1 else f"initial[{record}].{component}"

    def roles(self, record: int) -> "Roles":
        """What the quantities are to a record."""
        model = self.model
        return Roles(
            parameters=model.parameter_names,
            noise=tuple(f"noise.{name}" for name in model.output_names),
            initial=tuple(self.initial_name(record, name) for name in model.physical_names),
            model_error=tuple(f"model_error.{name}" for name in model.coordinates) if self.model_error else None,
        )

    def fixed(self, record: int) -> dict[str, Any]:
        """Every quantity that has a number in place of a prior."""
        given: dict[Any, Any] = {f"noise.{n}": self.noise.get(n, 0.0) for n in self.model.output_names}
        given |= {f"model_error.{n}": self.model_error.get(n, 0.0) for n in self.model.coordinates}
        given |= {self.initial_name(record, n): v for n, v in self.initials[record].items()}
        given |= self.priors
        return {n: np.asarray(v, dtype=float) for n, v in given.items() if not isinstance(v, dist.Distribution)}

    def particle(self, values: Mapping[str, Any], record: int) -> Particle:
        """The filter's view of one particle for one record."""
        return self.roles(record).particle({**self.fixed(record), **values})


@dataclass(frozen=True)
class Roles:
    """Which quantity is what to the filter, by name."""

    parameters: tuple[str, ...]
    noise: tuple[str, ...]
    initial: tuple[str, ...]
    model_error: tuple[str, ...] | None

    def particle(self, values: Mapping[str, Any]) -> Particle:
        return Particle(
            parameters={name: values[name] for name in self.parameters},
            noise=[values[name] for name in self.noise],
            initial_mean=[values[name] for name in self.initial],
            initial_sd=[jnp.zeros(()) for _ in self.initial],
            model_error=None if self.model_error is None else [values[name] for name in self.model_error],
        )


def _prepared(roles: Roles, form: Form, space: Space, numbers: Any, theta: Any) -> tuple[Particle, Any]:
    """Particles as the filter wants them, and their log prior; what is fixed comes apart as form and numbers."""
    fixed = form.filled(numbers)
    make = over_particles(lambda free: roles.particle({**fixed, **space.values_of_one(free)}))
    return constrained(make(theta)), jax.vmap(space.log_prior_of_one, in_axes=-1)(theta)


def _check_priors(model: Model, priors: Mapping[Any, Any]) -> None:
    names = [n for key in priors for n in (key if isinstance(key, tuple) else (key,))]
    model.check_parameters(names)
    for name, prior in priors.items():
        if isinstance(prior, dist.Distribution):
            shape = tuple(prior.batch_shape + prior.event_shape)
            expected = (len(name),) if isinstance(name, tuple) else model.shapes.get(name, ())
            if shape != expected:
                raise InputError(f"the prior of {name!r} has shape {shape}; the {model.name} expects {expected}.")
        elif isinstance(name, tuple) or np.shape(prior) != model.shapes.get(name, ()) or not is_finite(prior):
            raise InputError(
                f"the prior of {name!r} is {prior!r}; it must be a distribution from probsysid.dist, such as "
                "dist.LogNormal(0, 1), or a finite number to fix it."
            )


def _check_levels(kind: str, given: Mapping[str, Any], known: Sequence[str]) -> None:
    for name, value in given.items():
        if name not in known:
            hint = did_you_mean(name, known)
            raise InputError(f"{kind} names {name!r}; known are: {', '.join(known)}.{hint}")
        if isinstance(value, dist.Distribution):
            if not bool(value.support.is_discrete) and float(np.asarray(value.support(jnp.asarray(-1.0)))):
                raise InputError(f"the prior of {kind}.{name} allows negative values; use one such as dist.LogNormal.")
        elif not (is_finite(value) and np.shape(value) == () and value > 0):
            raise InputError(f"{kind} of {name!r} is {value!r}; it must be a positive number or a prior.")


class FilterTarget:
    """A `Target` for the sampler whose energies come from the ODE filter, over records one after the other."""

    def __init__(self, question: Question, particles: int):
        self.question = question
        self.particles = particles
        self.graded = question.solver.substeps == "auto"
        self.substeps = 2**FIRST if self.graded else question.solver.steps

    def at(self, level: int) -> "FilterTarget":
        """The same with 2**level integration steps a sampling interval."""
        raise NotImplementedError

    # What a kind of target has to know

    @property
    def filters(self) -> Sequence[Filter]:
        """One filter a record."""
        raise NotImplementedError

    @property
    def data(self) -> Sequence[Rows]:
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
        return self.question.space.sample(key, count)

    def log_prior(self, theta: Any) -> Any:
        return joined([self._particles(0, theta, place)[1] for place in shares(theta.shape[-1])])

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
        return joined(states), joined(energies)

    def _each(self, of_core: Callable[[slice, Event], Result], theta: Any, stop: int) -> list[Result]:
        """What comes of every core's particles before some sample: at the same time, or one after the other as long as
        there are programs to be compiled."""
        tasks = [partial(of_core, place) for place in shares(theta.shape[-1])]
        record, _ = self._locate(stop - 1)
        if all(filter.programs() for filter in self.filters[: record + 1]):
            return together(tasks)
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

    def browse(self, theta: Any, stop: int) -> tuple[Any, np.ndarray, np.ndarray]:
        """As `smc.target.browse`, without the energies and without waiting for every call: devices go on while the host
        looks at the last."""

        def of_core(place: slice, given_up: Event) -> tuple[Any, np.ndarray, np.ndarray]:
            ends = []
            for last, state in ahead(self._sweep(theta, place, stop)):
                jax.block_until_ready(state)
                if given_up.is_set():
                    break
                if last == stop or last in self.offsets:
                    ends.append(totals(state))
            *finished, (earlier, newest) = ends or [np.empty((2, 0))]
            with np.errstate(invalid="ignore", over="ignore"):  # lost particles
                return state, sum((end.sum(axis=0) for end in finished), start=earlier), newest

        states, earlier, newest = zip(*self._each(of_core, theta, stop), strict=True)
        return joined(states), -finite_or_lost(joined(earlier)), finite_or_lost(joined(newest))

    def _sweep(self, theta: Any, place: slice, stop: int) -> Iterator[tuple[int, Any]]:
        """The ends of ranges and the states there, as soon as a device has been told to find them."""
        state, first = None, 0
        most = max(LONGEST_CALL // self.particles, self._at_once)
        while first < stop:
            last = min(self._limit(first, most), stop)
            state, _ = self._advance(state, theta, place, first, last)
            yield last, state
            first = last

    def portion(self, record: int, first: int, last: int) -> Rows:
        """Some samples of a record, on all devices: every sweep asks for them.  They are sent again only if there are
        more of them than the last time; a stream writes on in the array that they are copied from."""
        end = min(last, self.offsets[record + 1] - self.offsets[record])
        known = self._portions.get((record, first))
        if known is None or known[0] != end:
            rows = self.data[record].changed(lambda numbers: everywhere(numbers[first:last].copy(), self.particles))
            known = self._portions[record, first] = end, rows
        return known[1]

    @cached_property
    def _portions(self) -> dict[tuple[int, int], tuple[int, Rows]]:
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
            question = self.question
            form, numbers = Form.of(question.fixed(record))
            put = partial(everywhere, particles=self.particles)
            program = question.space.program(_prepared, question.roles(record), form, put=put)
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


class Experiment(FilterTarget):
    """Finished records."""

    def __init__(self, question: Question, records: Sequence[Record], particles: int):
        super().__init__(question, particles)
        self.records = tuple(records)

    @cached_property
    def filters(self) -> tuple[Filter, ...]:
        """Records whose inputs behave alike share a filter, and so its compiled programs."""
        question = self.question
        systems = [question.solver.system(question.model, record.jump_order) for record in self.records]
        return tuple(filter_for(system, at_once(self.particles)) for system in systems)

    @cached_property
    def data(self) -> tuple[Rows, ...]:
        pairs = zip(self.records, self.filters, strict=True)
        samples = [prepare(record, f.system, self.substeps) for record, f in pairs]
        roomy = self.graded or self.substeps > 1
        return tuple(Rows.of(with_room(s) if roomy else s).changed(_padded) for s in samples)

    def one_step_errors(self, theta: Any, weights: np.ndarray) -> tuple[Float[np.ndarray, "sample output"], ...]:
        """For each record: prediction errors in units of their standard deviation, averaged over particles.  NaN where
        nothing was measured, and at the first sample, which nothing predicts."""
        return tuple(self._errors_on(r, theta, weights) for r in range(len(self.records)))

    def _errors_on(self, record: int, theta: Any, weights: np.ndarray) -> Float[np.ndarray, "sample output"]:
        outputs = measured(self.records[record], self.question.model)
        errors = np.full(outputs.shape, np.nan)
        for output in range(outputs.shape[1]):
            of_core = partial(self._weighted_errors, record, theta, weights, output)
            errors[1:, output] = np.sum(self._each(of_core, theta, self.offsets[record + 1]), axis=0)
        return np.where(np.isnan(outputs), np.nan, errors)

    def _weighted_errors(
        self, record: int, theta: Any, weights: np.ndarray, output: int, place: slice, given_up: Event
    ) -> Float[np.ndarray, " later"]:
        """Errors of an output at all samples but the first: the sum over some particles, by their weights."""
        alive = weights[place] > 0  # lost particles have no errors, and zero times that is not zero
        parts = []
        for count, rows in ahead(self._errors_of(record, theta, place, output)):
            found = rows_of(rows, count)
            parts.append((found if alive.all() else found[:, alive]) @ weights[place][alive])
            if given_up.is_set():
                break
        return np.concatenate([np.empty(0), *parts])

    def _errors_of(self, record: int, theta: Any, place: slice, output: int) -> Iterator[tuple[int, Any]]:
        """Lengths of ranges of samples and errors of an output in them, as soon as a device has been told to find
        them."""
        state, begin = None, self.offsets[record]
        first, end = begin, self.offsets[record + 1]
        while first < end:
            last = self.limit(first)
            state, rows = self._advance(state, theta, place, first, last, watched=output)
            if first > begin:
                yield last - first, rows
            first = last

    def at(self, level: int) -> "Experiment":
        """The same with 2**level integration steps a sampling interval; all levels share their programs."""
        if level not in self._levels:
            other = Experiment(self.question, self.records, self.particles)
            other.substeps = 2**level
            other.__dict__ |= {name: getattr(self, name) for name in ("filters", "offsets", "_levels")}
            self._levels[level] = other
        return self._levels[level]

    @cached_property
    def _levels(self) -> dict[int, "Experiment"]:
        return {}

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        return tuple(int(o) for o in np.cumsum([0, *(record.samples for record in self.records)]))

    def describe(self, sample: int) -> str:
        record, local = self._locate(sample)
        where = f"sample {local}" if len(self.records) == 1 else f"sample {local} of record {record}"
        return f"{where} (t = {self.records[record].time[local]:.6g})"


def at_once(particles: int) -> int:
    """Samples whose energies the filter gives at once for so many particles."""
    return int(np.clip(MEMORY // (8 * particles), FEWEST_ROWS, MOST_ROWS))


def _padded(rows: Float[np.ndarray, "sample number"]) -> Float[np.ndarray, "sample number"]:
    """Repeat the last sample until the samples after the first fill whole chunks."""
    missing = -(len(rows) - 1) % CHUNK or (CHUNK if len(rows) == 1 else 0)
    return np.concatenate([rows, np.repeat(rows[-1:], missing, axis=0)])
