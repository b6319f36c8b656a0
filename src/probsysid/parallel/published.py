"""What all workers of a cluster need: packed once, kept by the scheduler, fetched by digest.

Functions travel by value where they are defined in the user's own script or modules, which workers do not have.
"""

import hashlib
import sys
import sysconfig
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

import jax

from probsysid._internal.errors import ClusterError
from probsysid._version import __version__

SHELF = "probsysid"
"""Under which the scheduler keeps what is published."""

WAIT = 60.0
"""Seconds after which a worker gives up asking the scheduler."""


class NotPublished(RuntimeError):
    """The scheduler has nothing under this digest: it was started again."""


def versions() -> dict[str, str]:
    """What the numbers depend on, which must be the same everywhere."""
    return {
        "Python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "probsysid": __version__,
        "jax": jax.__version__,
    }


def packed(content: Any, functions: Iterable[Any]) -> bytes:
    """Content as bytes; the modules of these functions are included unless they are installed."""
    import cloudpickle

    with ExitStack() as stack:
        for module in {m.__name__: m for f in functions if (m := _own_module(f)) is not None}.values():
            cloudpickle.register_pickle_by_value(module)
            stack.callback(cloudpickle.unregister_pickle_by_value, module)
        return cloudpickle.dumps((versions(), content))


def unpacked(data: bytes) -> Any:
    """The content of bytes that `packed` made; raises a `ClusterError` if this process cannot read them."""
    import cloudpickle

    try:
        theirs, content = cloudpickle.loads(data)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise ClusterError(
            f"a worker cannot read the problem ({error}): install the same packages on all workers, your own modules, "
            "too."
        ) from None
    own = versions()
    different = [f"{name} {theirs[name]} here, {own[name]} there" for name in own if theirs.get(name) != own[name]]
    if different:
        raise ClusterError(f"a worker has other versions ({'; '.join(different)}): install the same on all machines.")
    return content


def digest_of(data: bytes) -> str:
    """The digest under which bytes are published."""
    return hashlib.sha256(data).hexdigest()


def fetch(digest: str) -> Any:
    """On a worker: what is published under a digest."""
    from distributed import get_worker
    from distributed.utils import sync

    worker = get_worker()
    data = sync(worker.loop, worker.scheduler.get_metadata, keys=[SHELF, digest], default=None, callback_timeout=WAIT)
    if data is None:
        raise NotPublished(digest)
    return unpacked(bytes(data))


def _own_module(function: Any) -> ModuleType | None:
    """The module of a function, if it is one of the user's own rather than an installed one."""
    name = getattr(function, "__module__", None) or type(function).__module__
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None)
    if module is None or file is None or name == "__main__" or name.split(".")[0] == "probsysid":
        return None
    installed = [Path(sysconfig.get_path(kind)).resolve() for kind in ("stdlib", "platstdlib", "purelib", "platlib")]
    place = Path(file).resolve()
    return None if any(folder in place.parents for folder in installed) else module
