"""A host's place among the others: where host 0 listens, how many hosts there are, and which one this is.

What is not said is taken from the variables that Slurm (`srun`) and MPI (`mpirun`) set for the processes they start.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from probsysid._internal.errors import InputError

PORTS = range(61440, 65536)
"""Where host 0 listens under Slurm and Open MPI, by the number of the job: the same range as JAX's own."""


@dataclass(frozen=True)
class Place:
    """One of several hosts."""

    host: str
    port: int
    count: int
    index: int

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Launched:
    """What the program that started this process says."""

    by: str
    count: int
    index: int
    address: str | None


def place(address: str | None, count: int | None, index: int | None, started: Launched | None) -> Place | None:
    """From what was said and what the launcher says; None for a process that is alone."""
    if address is None and count is None and index is None and (started is None or started.count == 1):
        return None
    if started is not None:
        count = started.count if count is None else count
        index = started.index if index is None else index
        address = started.address if address is None else address
    if count is None:
        raise InputError("several hosts: say how many there are (--host-count).")
    if count < 1:
        raise InputError(f"the number of hosts is {count}; it must be 1 or more.")
    if index is None:
        raise InputError(f"several hosts: say which of the {count} this one is (--host-index 0 to {count - 1}).")
    if not 0 <= index < count:
        raise InputError(f"the host index is {index}; with {count} hosts it must be 0 to {count - 1}.")
    if count == 1:
        return None
    if address is None:
        by = f"{started.by} has started {count} processes" if started is not None else f"there are {count} hosts"
        raise InputError(f"{by}: say where host 0 listens (--hosts ADDRESS:PORT), or run each alone (--hosts none).")
    return Place(*parse(address), count, index)


def parse(address: str) -> tuple[str, int]:
    """Name and port of `name:port`, `1.2.3.4:port` or `[ipv6]:port`."""
    match = re.fullmatch(r"(?:\[([0-9a-fA-F:]+)\]|([^\s:\[\]/]+)):(\d{1,5})", address.strip())
    if match is None or not 0 < int(match[3]) < 65536:
        raise InputError(f"the address of host 0 is {address!r}; write NAME:PORT, such as node1:7700.")
    return match[1] or match[2], int(match[3])


def launched(environment: Mapping[str, str]) -> Launched | None:
    """By Slurm or MPI, if by one of them."""
    for read in (_slurm, _open_mpi, _mpi):
        found = read(environment)
        if found is not None:
            return found
    return None


def _slurm(environment: Mapping[str, str]) -> Launched | None:
    """Of the step, not of the job: a batch script without `srun` is one process, however many tasks the job has."""
    count, index = _number(environment, "SLURM_STEP_NUM_TASKS"), _number(environment, "SLURM_PROCID")
    nodes, job = environment.get("SLURM_STEP_NODELIST"), _number(environment, "SLURM_JOB_ID")
    if count is None or index is None or nodes is None or job is None:
        return None
    port = PORTS[(job + (_number(environment, "SLURM_STEP_ID") or 0)) % len(PORTS)]
    return Launched("srun", count, index, f"{first_node(nodes)}:{port}")


def first_node(nodes: str) -> str:
    """Of Slurm's short form: `a1,b2`, `node[001-015],b2` or `node[7,9-12]`."""
    match = re.match(r"([^,\[]+)(?:\[([^,\-\]]+)[^\]]*\]([^,]*))?", nodes)
    return "".join(part or "" for part in match.groups()) if match else nodes


def _open_mpi(environment: Mapping[str, str]) -> Launched | None:
    """The address is that of `mpirun`, where older versions tell it: host 0 usually runs beside it."""
    count, index = _number(environment, "OMPI_COMM_WORLD_SIZE"), _number(environment, "OMPI_COMM_WORLD_RANK")
    if count is None or index is None:
        return None
    match = re.match(r"(\d+)\.\d+;tcp://([^,:]+)", environment.get("OMPI_MCA_orte_hnp_uri", ""))
    address = f"{match[2]}:{PORTS[(int(match[1]) >> 12) % len(PORTS)]}" if match else None
    return Launched("mpirun", count, index, address)


def _mpi(environment: Mapping[str, str]) -> Launched | None:
    """MPICH and its relatives."""
    count, index = _number(environment, "PMI_SIZE"), _number(environment, "PMI_RANK")
    return None if count is None or index is None else Launched("mpiexec", count, index, None)


def _number(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(name, "")
    return int(text) if text.isdecimal() else None
