"""Particles over several devices: graphics cards, or cores where JAX dispatches asynchronously (else `threads.py`).

Every device filters its own share of the particles; nothing is exchanged between them.  What is guaranteed about runs
on different numbers of devices and cores:

- A particle's energies and state come from the same operations in the same order, whatever else is filtered beside it.
  They are equal to the last bit but where the compiler treats the end of a block of particles in another way than its
  middle; then they differ by rounding, some 1e-16 of their size.
- All sums over particles (weights, moments, evidence) are taken over all of them at once, in one order, on the host:
  there is no reduction over devices.  The mean one-step errors are the exception, which nothing depends on: over cores
  they are summed share by share.
- Random numbers follow from the seed, the sample and the step, never from the device.  So decisions (when to
  rejuvenate, ancestors, acceptance) are the same unless one hangs on a difference of rounding, which has about the
  chance of 1e-13 each.
- Rounding that gets into a particle is carried on by the proposals fitted to it: tests allow parameters to differ by
  1e-7.
- The same number of devices on the same kind of processor gives the same bits.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from threading import Event, Lock
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import PyTree

from probsysid._internal.array_types import Numbers
from probsysid._internal.jax_setup import jit_fused
from probsysid.parallel.executor import FEWEST, Executor, Result, Task, even_shards

AXIS = "particle"


@dataclass(frozen=True)
class Devices(Executor):
    """All particles in one task, sharded over devices by `shard_map`.

    Args:
        count: how many devices to use; None for as many as the particles can be dealt out to evenly.
        fewest: particles that are worth a device of their own.
    """

    count: int | None = None
    fewest: int = FEWEST

    def slices(self, particles: int) -> tuple[slice, ...]:
        return (slice(0, particles),)

    def run(self, tasks: Sequence[Task[Result]]) -> list[Result]:
        return [task(Event()) for task in tasks]

    def mesh(self, particles: int) -> Mesh | None:
        available = jax.local_devices()[: self.count]  # of this process, in case JAX knows of others
        count = even_shards(particles, len(available), self.fewest)
        return _mesh(tuple(available[:count])) if count > 1 else None


@lru_cache
def _mesh(devices: tuple[jax.Device, ...]) -> Mesh:
    return Mesh(np.array(devices), (AXIS,))


@dataclass(frozen=True, eq=False)
class ShardedFunction:
    """`function(by_particle, shared)`, compiled to run on the devices that an executor names.

    Leaves of the first argument have the particle axis last; every device gets the second whole.  Results are matrices
    with the particle axis last.  Threads that call it with shapes that are new take turns, so that each program is
    compiled once.
    """

    function: Callable[[PyTree, PyTree], PyTree]
    executor: Executor

    def __call__(self, by_particle: PyTree, shared: PyTree) -> PyTree:
        mesh = self._mesh(by_particle)
        if mesh is not None:
            by_particle, shared = shard(by_particle, mesh), jax.tree.map(lambda leaf: _known(leaf, mesh), shared)
        shapes = tuple(np.shape(leaf) for leaf in jax.tree.leaves((by_particle, shared)))
        if shapes in self._compiled_shapes:
            return self._compiled(by_particle, shared)
        with self._compiling:
            result = self._compiled(by_particle, shared)
            self._compiled_shapes.add(shapes)
        return result

    @property
    def programs(self) -> int:
        """The number of argument shapes for which it has been compiled."""
        return len(self._compiled_shapes)

    @cached_property
    def _compiled(self) -> Any:
        return jit_fused(self._sharded)

    @cached_property
    def _compiled_shapes(self) -> set[tuple[tuple[int, ...], ...]]:
        return set()

    @cached_property
    def _compiling(self) -> Lock:
        return Lock()

    def _mesh(self, by_particle: PyTree) -> Mesh | None:
        return self.executor.mesh(jax.tree.leaves(by_particle)[0].shape[-1])

    def _sharded(self, by_particle: PyTree, shared: PyTree) -> PyTree:
        mesh = self._mesh(by_particle)
        if mesh is None:
            return self.function(by_particle, shared)
        inputs = (
            jax.tree.map(lambda leaf: particle_spec(leaf.ndim), by_particle),
            jax.tree.map(lambda _: PartitionSpec(), shared),
        )
        outputs = PartitionSpec(None, AXIS)
        mapped = jax.shard_map(self.function, mesh=mesh, in_specs=inputs, out_specs=outputs, check_vma=False)
        return mapped(by_particle, shared)


def particle_spec(dimensions: int) -> PartitionSpec:
    """The last axis over the devices."""
    return PartitionSpec(*[None] * (dimensions - 1), AXIS)


def constrain_sharding(tree: PyTree, mesh: Mesh | None) -> PyTree:
    """Within a compiled function: place its results where a `ShardedFunction` wants them."""
    if mesh is None:
        return tree
    return jax.tree.map(lambda leaf: jax.lax.with_sharding_constraint(leaf, _sharding(leaf.ndim, mesh)), tree)


def shard(tree: PyTree, mesh: Mesh | None) -> PyTree:
    """Particles dealt out over the devices; leaves that are in place already are not moved.  A program compiled for
    arguments elsewhere would be another program."""
    if mesh is None:
        return jax.device_put(tree)

    def put(leaf: Numbers) -> Numbers:
        place = _sharding(leaf.ndim, mesh)
        return leaf if getattr(leaf, "sharding", None) == place else jax.device_put(leaf, place)

    return jax.tree.map(put, tree)


def replicate(tree: PyTree, mesh: Mesh | None) -> PyTree:
    """A copy on every device."""
    return jax.device_put(tree, None if mesh is None else NamedSharding(mesh, PartitionSpec()))


def prefetch(calls: Iterable[Result], count: int = 2) -> Iterator[Result]:
    """The results of calls, each yielded after `count` further calls have been dispatched: devices compute while the
    host looks at an earlier result.  A larger count only takes memory."""
    dispatched: deque[Result] = deque()
    for result in calls:
        dispatched.append(result)
        if len(dispatched) > count:
            yield dispatched.popleft()
    yield from dispatched


def rows_of(values: jax.Array, count: int) -> np.ndarray:
    """The first rows of a matrix that may lie on several devices, on the host.  No program is compiled for their
    number, and nothing else is copied."""
    shards = sorted(values.addressable_shards, key=lambda shard: shard.index[-1].start or 0)
    parts = [np.asarray(shard.data)[:count] for shard in shards]
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)


def _known(leaf: Any, mesh: Mesh) -> Any:
    """Numbers such as the range of samples as they lie on all devices already: sending three of them to two devices
    takes 0.3 ms, as long as filtering 256 particles over 20 samples."""
    return _number(int(leaf), mesh) if isinstance(leaf, int | np.integer) else leaf


@lru_cache(maxsize=4096)
def _number(value: int, mesh: Mesh) -> jax.Array:
    return jax.device_put(np.asarray(value), NamedSharding(mesh, PartitionSpec()))


@lru_cache
def _sharding(dimensions: int, mesh: Mesh) -> NamedSharding:
    return NamedSharding(mesh, particle_spec(dimensions))
