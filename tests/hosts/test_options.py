"""Several hosts on the command line: one sentence for each mistake, before anything is read or computed."""

import pytest

from probsysid import hosts
from probsysid.hosts import options
from tests.study.shell import call


@pytest.mark.parametrize("command", [("fit", "absent.toml"), ("benchmark", "silverbox")])
@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (("--hosts", "node0", "--host-count", 2, "--host-index", 0), "the address of host 0 is 'node0'"),
        (("--hosts", "node0:7700"), "say how many there are (--host-count)"),
        (("--hosts", "node0:7700", "--host-count", 2), "say which of the 2 this one is (--host-index 0 to 1)"),
        (("--host-count", 2, "--host-index", 1), "say where host 0 listens (--hosts ADDRESS:PORT)"),
        (("--hosts", "a:1", "--host-count", 2, "--host-index", 5), "the host index is 5; with 2 hosts"),
        (("--hosts", "a:1", "--host-count", 2, "--host-index", 0, "--host-timeout", -1), "it must be a positive"),
    ],
)
def test_mistakes(command: tuple[str, str], given: tuple, sentence: str) -> None:
    answer = call(*command, *given)
    assert answer.exit_code == 2
    assert sentence in answer.stderr
    assert answer.stderr.count("\n") == 1


def test_processes_of_a_launcher_can_be_kept_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PMI_SIZE", "4")
    monkeypatch.setenv("PMI_RANK", "3")
    options.join("none", None, None, hosts.TIMEOUT)
    assert hosts.first() and hosts.index() == 0
