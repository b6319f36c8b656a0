"""Several models of a study as whole runs on a cluster: the same posteriors, kept as they come."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from probsysid import ClusterError, Posterior, Threads
from probsysid.parallel.cluster import Cluster
from probsysid.study.identification import Course, identify_all
from probsysid.study.resolve import ResolvedStudy
from probsysid.study.run import Log, load_study
from tests.parallel.clusters import cluster
from tests.study.shell import call
from tests.study.small import STUDY, write_study

HEAD, REST = STUDY.split("[model]\n")[0], STUDY.split("[parameters]\n")[1]
MODELS = """
[[model]]
name = "{name}"
coordinates = {{ h = 1 }}
equations = {{ h = "{equation}" }}
outputs = {{ level = "h" }}
"""
TWO = MODELS.format(name="lag", equation="a*(b*u - h)") + MODELS.format(name="other", equation="a*(b*u - 1.1*h)")


@pytest.fixture(scope="module")
def workers() -> Iterator[Cluster]:
    with cluster() as found:
        yield found


@pytest.fixture
def study(tmp_path: Path) -> ResolvedStudy:
    return load_study(write_study(tmp_path, f"{HEAD}{TWO}\n[parameters]\n{REST}"))[0]


def course(folder: Path, executor: Cluster | Threads) -> Course:
    folder.mkdir(exist_ok=True)
    return Course(folder, Log(folder / "log.txt", lambda _: None, lambda: None), executor=executor)


class Unreachable(Cluster):
    """A cluster that is gone."""

    def __init__(self) -> None:
        pass

    def runs(self, *_: object) -> Iterator[tuple[int, object]]:
        raise ClusterError("the cluster is gone.")


@pytest.mark.slow
def test_models_are_whole_runs_and_kept_as_they_come(study: ResolvedStudy, workers: Cluster, tmp_path: Path) -> None:
    alone = identify_all(study, course(tmp_path / "alone", Threads(cores=1)))
    together = identify_all(study, course(tmp_path / "together", workers))
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(other.theta, one.theta)
        assert other.log_evidence == one.log_evidence
        assert other.setup.problem.model.name == one.setup.problem.model.name
    kept = sorted((tmp_path / "together").glob("*.nc"))
    assert [path.name.split("-")[0] for path in kept] == ["lag", "other"]
    # a run that goes on needs no cluster for what is complete
    again: list[Posterior] = identify_all(study, course(tmp_path / "together", Unreachable()))
    np.testing.assert_array_equal(again[1].theta, alone[1].theta)
    # but another study does
    changed, _ = load_study(study.path, {"seed": 2})
    with pytest.raises(ClusterError):
        identify_all(changed, course(tmp_path / "together", Unreachable()))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--cluster", "local:none"], "write local:4"),
        (["--cluster", "somewhere"], "write it as tls://host:8786"),
        (["--cluster", "tls://127.0.0.1:1"], "needs certificates"),
        (["--tls-ca", "ca.pem"], "is for a cluster"),
    ],
)
def test_wrong_options_are_one_sentence(tmp_path: Path, options: list[str], sentence: str) -> None:
    answer = call("fit", write_study(tmp_path), *options)
    assert answer.exit_code == 2
    assert sentence in answer.stderr and "Traceback" not in answer.stderr


@pytest.mark.long
@pytest.mark.slow
def test_a_fit_on_a_cluster_prints_the_dashboard(tmp_path: Path, workers: Cluster) -> None:
    answer = call("fit", write_study(tmp_path), "--cluster", workers.address, "--method", "map")
    assert answer.exit_code in (0, 4)
    assert f"cluster: {workers.address}; dashboard: http://127.0.0.1:" in answer.stderr
