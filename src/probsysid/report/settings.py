"""What a report reads from `Posterior.settings`, as typed fields: the only place of the report that knows its keys."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from probsysid.posterior.posterior import Posterior

SHOWN_ELSEWHERE = ("priors", "units", "solver_verdict", "uncertainty")
"""Settings that the sections on parameters and integration show."""


@dataclass(frozen=True)
class RunSettings:
    """Facts about a run that a posterior carries; defaults stand for those that an older file does not have."""

    version: str
    created: str
    """Local date and time, ISO 8601."""
    model: str
    particles: int | None
    sweeps: float
    seconds: float
    lost: int
    ess_threshold: float
    units: Mapping[str, str]
    uncertainty: Mapping[str, Mapping[str, float]]
    """Quantity -> source -> share of its uncertainty; empty where it was not decomposed."""
    listed: Mapping[str, object]
    """Everything that no section of its own shows, in the order it was written."""

    @classmethod
    def of(cls, posterior: "Posterior") -> "RunSettings":
        """The settings of a posterior."""
        settings = posterior.settings
        return cls(
            version=settings.get("version", ""),
            created=settings.get("created", ""),
            model=settings.get("model", ""),
            particles=settings.get("particles"),
            sweeps=float(settings.get("sweeps", float("nan"))),
            seconds=float(settings.get("seconds", float("nan"))),
            lost=settings.get("lost", 0),
            ess_threshold=float(settings.get("ess_threshold", 0.5)),
            units=settings.get("units", {}),
            uncertainty=settings.get("uncertainty", {}),
            listed={key: value for key, value in settings.items() if key not in SHOWN_ELSEWHERE},
        )
