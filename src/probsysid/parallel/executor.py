"""What runs the work: an `Executor` is handed to whatever evaluates particles.

It says how particles are partitioned into tasks, runs the tasks, and names the devices over which the particles of one
task are sharded.  A `RemoteExecutor` also evaluates blocks of particles in other processes, on other machines.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Event
from typing import Any, TypeVar

import numpy as np
from jax.sharding import Mesh
from jaxtyping import PyTree

Result = TypeVar("Result")

Task = Callable[[Event], Result]
"""A piece of work.  The event tells it that its result is no longer wanted: another task failed, or the user has
interrupted the run."""

FEWEST = 128
"""Particles that are worth a core, or a device: each call costs as much as filtering a few of them over a chunk."""


class Executor(ABC):
    """Partitions particles and evaluates them."""

    @abstractmethod
    def slices(self, particles: int) -> tuple[slice, ...]:
        """The particles of each task; together they are all particles, in order."""

    @abstractmethod
    def run(self, tasks: Sequence[Task[Result]]) -> list[Result]:
        """The results of all tasks, in order.  If one raises, the others are told to give up, and it is raised."""

    @abstractmethod
    def mesh(self, particles: int) -> Mesh | None:
        """The devices over which this many particles of one program are sharded; None for a single device."""

    @property
    def remote(self) -> "RemoteExecutor | None":
        """What evaluates blocks of particles in other processes; None where all work is done in this one."""
        return None


@dataclass(frozen=True)
class Exchange:
    """What is sent to workers in other processes, and what is fetched from them.  No result depends on it."""

    least_work: float = 2**22
    """Particle-steps of a state with four components, 0.2 s of one core, below which particles are evaluated in the
    user's process: a round of tasks costs a quarter of it."""
    largest_fetched: int = 400_000
    """Bytes of a block's states that are fetched with its energies.  Leaving them on the worker takes another task,
    which costs scheduler and worker 3 ms, as long as 400 kB take at 1 Gbit/s."""


class RemoteExecutor(Executor):
    """An executor with workers in other processes.  Work that it is handed as tasks is done in this process."""

    exchange: Exchange = Exchange()

    @abstractmethod
    def block(self, particles: int) -> int | None:
        """Particles per remote task, for this many altogether; None if they are too few for that.  It depends on their
        number alone, so that results do not depend on the number of workers."""

    @abstractmethod
    def publish(self, content: bytes) -> str:
        """Make something available to all workers, those that join later, too; returns its digest."""

    @abstractmethod
    def evaluate(
        self,
        function: Callable[..., tuple[Any, Any]],
        blocks: Sequence[tuple[Any, ...]],
        anew: Sequence[tuple[Any, ...]],
        *,
        keep: bool,
    ) -> tuple[list[Any], list[Any]]:
        """`function(*arguments)` of every block by a worker; the first and the second results of all blocks.

        With `keep`, the first results stay on the workers; handles are returned, which may be arguments of further
        blocks.  `anew` are arguments without handles that give the same results, for when a handle is lost."""


def even_shards(particles: int, available: int, fewest: int) -> int:
    """The largest number of equal shards with at least `fewest` particles each; 1 if there is no such number."""
    possible = range(available, 1, -1)
    return next((n for n in possible if particles % n == 0 and particles >= n * fewest), 1)


def concatenate(parts: Sequence[PyTree]) -> PyTree:
    """Matrices of the tasks' particles as one, on the host; a single one is returned as it is."""
    return parts[0] if len(parts) == 1 else np.concatenate([np.asarray(part) for part in parts], axis=-1)
