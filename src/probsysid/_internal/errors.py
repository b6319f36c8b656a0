"""Errors and warnings that users see."""

import difflib
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class InputError(ValueError):
    """The input is wrong; the message says what, where, and what to do."""


def first_words(error: BaseException) -> str:
    """The first line of an error's message, or its type if it has none, shortened for a message of our own."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")[:120]


def did_you_mean(name: str, valid: Iterable[str]) -> str:
    """` Did you mean 'x'?` with the closest valid name, or an empty text if none is close."""
    near = difflib.get_close_matches(str(name), [str(v) for v in valid], n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


class ModelWarning(UserWarning):
    """The data contradict the model; the message says how, and what to do."""


class SamplingWarning(UserWarning):
    """The sampling is not to be trusted; the message says why."""


@contextmanager
def said_later() -> Iterator[None]:
    """Suppress `ModelWarning` and `SamplingWarning`, for callers that show these messages in their own output."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        warnings.simplefilter("ignore", SamplingWarning)
        yield


class ClusterWarning(UserWarning):
    """Something about the cluster that the user should know; the run goes on."""


class ClusterError(RuntimeError):
    """The cluster is lost or cannot do the work; a checkpoint resumes the run elsewhere."""


class SamplingError(RuntimeError):
    """Sampling cannot continue; `sample` is the index at which it stopped, if there is one."""

    def __init__(self, message: str, sample: int | None = None):
        super().__init__(message)
        self.sample = sample
