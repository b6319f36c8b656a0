"""The options of a live run."""

from dataclasses import dataclass
from typing import Literal

from probsysid._internal.errors import InputError
from probsysid._internal.validation import is_real
from probsysid.live.alignment import Gaps

OnAlarm = Literal["go on", "restart"]


@dataclass(frozen=True)
class LiveOptions:
    """How a stream is followed.

    Attributes:
        block: seconds of samples that are processed together, unless more are waiting.
        patience: seconds of the stream for which a sample waits for those before it.
        gaps: what a gap becomes, "missing", "hold" or "restart" (`alignment.py`); None for missing outputs where there
            are no inputs, and a restart otherwise.
        false_alarms: mean time between false alarms in seconds, at least; None watches for no change.
        on_alarm: "go on", or "restart" from the priors, or from a widened posterior.
        keep: fraction of the posterior's information that such a restart keeps: the more, the smaller the changes
            that it can follow.
        settle: samples before changes are watched for: the posterior is few particles in a wide prior before.
        checkpoint: seconds between checkpoints.
        results: seconds between results.
    """

    block: float = 0.05
    patience: float = 0.5
    gaps: Gaps | None = None
    false_alarms: float | None = 86_400.0
    on_alarm: OnAlarm = "go on"
    keep: float = 0.0
    settle: int = 100
    checkpoint: float = 60.0
    results: float = 0.5

    def __post_init__(self) -> None:
        for name in ("block", "patience", "checkpoint", "results", "false_alarms"):
            value = getattr(self, name)
            if not (value is None and name == "false_alarms") and not (is_real(value) and value > 0):
                raise InputError(f"{name} is {value!r}; it must be a positive number of seconds.")
        if not is_real(self.keep) or not 0 <= self.keep <= 1:
            raise InputError(f"keep is {self.keep!r}; it must be from 0 to 1.")
        for name, known in (("gaps", ("missing", "hold", "restart")), ("on_alarm", ("go on", "restart"))):
            value = getattr(self, name)
            if value not in known and not (value is None and name == "gaps"):
                raise InputError(f"{name} is {value!r}; it must be one of: {', '.join(known)}.")
