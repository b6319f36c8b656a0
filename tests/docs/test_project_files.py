"""Files about the project agree with the package, and the paths that the pages name exist."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

import probsysid as ps
from tests.docs.blocks import PAGES, ROOT

YAML_FILES = [
    ROOT / "CITATION.cff",
    ROOT / ".pre-commit-config.yaml",
    *sorted((ROOT / ".github").rglob("*.yml")),
]
WORKFLOW = ROOT / ".github" / "workflows" / "ci.yml"

# Pages written by scripts outside docs/ and perf/, which name their own paths.
GENERATED = {"benchmarks.md", "validation.md", "validation-sampler.md"}
# `smc/ibis.py` and the like: a path with a folder, relative to the repository or to the package.
NAMED_PATH = re.compile(r"`((?:[\w.-]+/)+[\w.-]+\.(?:py|c|md|cff|toml|txt|yml))\b[^`]*`")


def read(path: Path) -> dict:
    return yaml.safe_load(path.read_text())


@pytest.mark.parametrize("path", YAML_FILES, ids=lambda path: path.name)
def test_yaml_files_hold_a_mapping(path: Path) -> None:
    assert isinstance(read(path), dict)


def test_the_citation_has_the_version_of_the_package() -> None:
    assert read(ROOT / "CITATION.cff")["version"] == ps.__version__


def test_the_citation_has_what_the_format_requires() -> None:
    """Citation File Format 1.2.0: these keys are mandatory, at the top and in a reference."""
    citation = read(ROOT / "CITATION.cff")
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    assert citation["cff-version"] == "1.2.0"
    for reference in citation["references"]:
        assert {"type", "title", "authors"} <= reference.keys()
    assert [author["family-names"] for author in citation["references"][0]["authors"]] == [
        "Longbottom",
        "Champneys",
        "Rogers",
    ]


def test_metadata_agree_with_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    citation = read(ROOT / "CITATION.cff")
    assert citation["title"] == project["name"]
    assert citation["license"] == project["license"]
    assert citation["authors"] == project["authors"]


def test_continuous_integration_covers_the_declared_versions_of_python() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    (job,) = read(WORKFLOW)["jobs"].values()
    assert job["strategy"]["matrix"]["python"] == declared
    assert any(step.get("run") == "bash .ci/run" for step in job["steps"])


def test_hooks_are_local_and_use_the_project_environment() -> None:
    for repository in read(ROOT / ".pre-commit-config.yaml")["repos"]:
        assert repository["repo"] == "local"
        for hook in repository["hooks"]:
            assert hook["entry"].startswith(".venv/bin/"), hook["id"]


@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in GENERATED], ids=lambda page: page.name)
def test_named_paths_exist(page: Path) -> None:
    """A path in backticks is relative to the repository or to src/probsysid."""
    named = set(NAMED_PATH.findall(page.read_text()))
    missing = {path for path in named if not ((ROOT / path).exists() or (ROOT / "src" / "probsysid" / path).exists())}
    assert missing == set()
