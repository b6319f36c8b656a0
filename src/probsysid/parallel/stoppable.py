"""An executor that looks for a request to stop between its calls, and tells its tasks of it."""

from collections.abc import Callable, Sequence
from threading import Event

from jax.sharding import Mesh

from probsysid._internal.interrupts import StopRequest, present_request
from probsysid.parallel.executor import Executor, RemoteExecutor, Result, Task


class Stoppable(Executor):
    """Another executor, whose work ends with `KeyboardInterrupt` once a stop is requested.

    It is equal to the executor that does the work: compiled programs are shared.
    """

    def __init__(self, inner: Executor, request: StopRequest):
        self.inner = inner
        self.request = request

    def __eq__(self, other: object) -> bool:
        return self.inner == (other.inner if isinstance(other, Stoppable) else other)

    def __hash__(self) -> int:
        return hash(self.inner)

    def slices(self, particles: int) -> tuple[slice, ...]:
        return self.inner.slices(particles)

    def run(self, tasks: Sequence[Task[Result]]) -> list[Result]:
        self.request.check()
        results = self.inner.run([self._watching(task) for task in tasks])
        self.request.check()  # the results of tasks that gave up are not complete
        return results

    def mesh(self, particles: int) -> Mesh | None:
        return self.inner.mesh(particles)

    @property
    def remote(self) -> RemoteExecutor | None:
        return self.inner.remote  # which looks for the request while it waits

    def _watching(self, task: Task[Result]) -> Callable[[Event], Result]:
        return lambda give_up: task(_EitherEvent(give_up, self.request))


class _EitherEvent(Event):
    """Set if another task failed or a stop is requested."""

    def __init__(self, given: Event, request: StopRequest):
        super().__init__()
        self._given = given
        self._request = request

    def is_set(self) -> bool:
        return self._given.is_set() or self._request.is_set()


def stoppable(executor: Executor) -> Executor:
    """The executor, or one that stops when a signal asks for it, inside of `stop_on_signals`."""
    request = present_request()
    return executor if request is None or isinstance(executor, Stoppable) else Stoppable(executor, request)
