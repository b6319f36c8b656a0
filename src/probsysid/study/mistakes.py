"""Mistakes in a study: collected, so that all are reported at once."""

from pathlib import Path

from probsysid._internal.errors import InputError


class StudyError(InputError):
    """All mistakes of a study, one sentence each."""

    def __init__(self, path: Path | str, problems: list[str]):
        self.problems = problems
        if len(problems) == 1:
            super().__init__(f"{path}: {problems[0]}")
        else:
            listed = "\n".join(f"  - {problem}" for problem in problems)
            super().__init__(f"{path} has {len(problems)} mistakes:\n{listed}")


class Mistakes:
    """A list of mistakes found so far."""

    def __init__(self, path: Path):
        self.path = path
        self.found: list[str] = []

    def add(self, key: str, error: InputError | str) -> None:
        """Add a sentence about a key of the study."""
        self.found.append(f"`{key}`: {error}" if key else str(error))

    def drop(self, phrase: str) -> None:
        """Remove the sentences that contain a phrase."""
        self.found = [text for text in self.found if phrase not in text]

    def stop(self) -> None:
        """Raise if there are any."""
        if self.found:
            raise StudyError(self.path, list(dict.fromkeys(self.found)))
