"""Processes that JAX itself has brought together (`jax.distributed.initialize`): their places, without being told."""

import socket

import jax
import numpy as np
from jax.experimental import multihost_utils

from probsysid.hosts.place import Launched

LONGEST = 300
"""Bytes for an address: names of machines have 253 at most."""


def of_jax() -> Launched | None:
    """This process among those of JAX; None where it is the only one."""
    if not jax.distributed.is_initialized() or jax.process_count() == 1:
        return None
    return Launched("jax.distributed", jax.process_count(), jax.process_index(), _address_of_first())


def _address_of_first() -> str:
    """A name and a free port of process 0, which JAX tells the others."""
    own = f"{socket.gethostname()}:{_free_port()}".encode().ljust(LONGEST)
    told = multihost_utils.broadcast_one_to_all(np.frombuffer(own, dtype=np.uint8))
    return bytes(np.asarray(told, dtype=np.uint8)).decode().strip()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])
