"""Results of single runs, kept in validation/results: an interrupted study goes on where it stopped."""

import json
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


class Kept:
    """Results of one study, as one line of JSON each; delete its file to begin anew."""

    def __init__(self, study: str) -> None:
        self.path = ROOT / "validation" / "results" / f"{study}.jsonl"
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        records = [json.loads(line) for line in lines]
        self.found: dict[str, Any] = {record["key"]: record["result"] for record in records}
        self.code = {record["key"]: record["code"] for record in records}
        """The commit that each was made at."""
        self.commit = commit()  # now: the process goes on with this code, whatever is committed meanwhile

    def has(self, keys: Iterable[str]) -> bool:
        """Whether all of these are there."""
        return all(key in self.found for key in keys)

    def get(self, key: str, run: Callable[[], Any]) -> Any:
        """The result under this key, from the file or from a run."""
        if key not in self.found:
            self.found[key], self.code[key] = run(), self.commit
            self.path.parent.mkdir(exist_ok=True)
            with self.path.open("a") as file:
                file.write(json.dumps({"key": key, "code": self.code[key], "result": self.found[key]}) + "\n")
        return self.found[key]


def commit() -> str:
    """Short name of the commit that runs."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip() or "-"
