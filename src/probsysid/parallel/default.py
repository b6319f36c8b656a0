"""The executor of a run that names none."""

import jax

from probsysid._internal.jax_setup import synchronous_dispatch
from probsysid.parallel.executor import Executor
from probsysid.parallel.sharding import Devices
from probsysid.parallel.stoppable import stoppable
from probsysid.parallel.threads import Threads


def default_executor() -> Executor:
    """Threads where the devices are cores whose programs run in the thread that calls them, else all devices."""
    executor = Threads() if synchronous_dispatch() and jax.default_backend() == "cpu" else Devices()
    return stoppable(executor)
