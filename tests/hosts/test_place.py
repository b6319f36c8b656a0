"""A host's place: from what is said, or from the launcher's variables."""

import pytest

from probsysid import InputError
from probsysid.hosts.place import Place, first_node, launched, parse, place

SRUN = {
    "SLURM_JOB_ID": "4711",
    "SLURM_STEP_ID": "2",
    "SLURM_NTASKS": "8",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_PROCID": "3",
    "SLURM_STEP_NODELIST": "node[017-020]",
}
OPEN_MPI = {
    "OMPI_COMM_WORLD_SIZE": "2",
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_MCA_orte_hnp_uri": "1531576320.0;tcp://10.96.0.1,10.148.0.1:34911",
}


def test_what_is_said_is_taken() -> None:
    assert place("node0:7700", 4, 2, launched({})) == Place("node0", 7700, 4, 2)
    assert place("node0:7700", 4, 2, launched(SRUN)) == Place("node0", 7700, 4, 2)
    assert place("node0:7700", None, None, launched(SRUN)) == Place("node0", 7700, 4, 3)


def test_a_process_alone_stays_alone() -> None:
    assert place(None, None, None, launched({})) is None
    assert place(None, None, None, launched(SRUN | {"SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"})) is None
    batch_script = {name: value for name, value in SRUN.items() if "STEP" not in name}
    assert place(None, None, None, launched(batch_script)) is None
    assert place("node0:7700", 1, 0, launched({})) is None


def test_slurm() -> None:
    # 4711 + 2 modulo the 4096 ports from 61440 on
    assert place(None, None, None, launched(SRUN)) == Place("node017", 61440 + 617, 4, 3)


@pytest.mark.parametrize(
    ("nodes", "first"),
    [
        ("n1", "n1"),
        ("n1,n2", "n1"),
        ("node[001-015],host2", "node001"),
        ("node[7,9-12]", "node7"),
        ("rack[1-2]-blade,other", "rack1-blade"),
    ],
)
def test_the_first_of_slurms_nodes(nodes: str, first: str) -> None:
    assert first_node(nodes) == first


def test_mpi() -> None:
    # job 1531576320 / 4096 modulo 4096
    assert place(None, None, None, launched(OPEN_MPI)) == Place("10.96.0.1", 61440 + 1531576320 // 4096 % 4096, 2, 1)
    newer = {name: value for name, value in OPEN_MPI.items() if "uri" not in name}
    with pytest.raises(InputError, match="mpirun has started 2 processes: say where host 0 listens"):
        place(None, None, None, launched(newer))
    assert place("node0:7700", None, None, launched(newer)) == Place("node0", 7700, 2, 1)
    assert place("node0:7700", None, None, launched({"PMI_SIZE": "3", "PMI_RANK": "0"})) == Place("node0", 7700, 3, 0)
    assert launched({"PMI_SIZE": "many", "PMI_RANK": "0"}) is None


@pytest.mark.parametrize(
    ("address", "count", "index", "message"),
    [
        ("node0", 2, 0, "address of host 0 is 'node0'; write NAME:PORT"),
        ("node0:port", 2, 0, "write NAME:PORT"),
        ("node0:70000", 2, 0, "write NAME:PORT"),
        ("http://node0:7700", 2, 0, "write NAME:PORT"),
        ("node0:7700", 2, 2, "host index is 2; with 2 hosts it must be 0 to 1"),
        ("node0:7700", 2, -1, "host index is -1"),
        ("node0:7700", 0, 0, "number of hosts is 0"),
        ("node0:7700", None, 0, "say how many there are"),
        ("node0:7700", 2, None, "say which of the 2 this one is"),
        (None, 2, 0, "there are 2 hosts: say where host 0 listens"),
    ],
)
def test_mistakes(address: str | None, count: int | None, index: int | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        place(address, count, index, launched({}))


def test_addresses() -> None:
    assert parse("[fe80::1]:80") == ("fe80::1", 80)
    assert parse(" 10.0.0.1:65535 ") == ("10.0.0.1", 65535)
