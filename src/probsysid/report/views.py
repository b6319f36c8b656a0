"""What a report shows, free of where it came from: a study, or a posterior on its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from probsysid.data.record import Record
from probsysid.posterior.posterior import Posterior
from probsysid.posterior.simulate import Simulation
from probsysid.posterior.states import States


@dataclass(frozen=True, eq=False)
class DataView:
    """A record as a whole."""

    name: str
    record: Record
    train: slice | None
    test: slice | None
    notes: Sequence[str] = ()
    file: str = ""


@dataclass(frozen=True, eq=False)
class RunView:
    """A free run over a stretch of a record."""

    name: str
    simulation: Simulation
    train: slice | None
    test: slice | None
    scores: Mapping[str, Mapping[str, Mapping[str, float]]]
    """Range -> output -> scores."""
    start: str
    """Where the initial state came from."""


@dataclass(frozen=True, eq=False)
class ModelView:
    """One model and what it came to."""

    name: str
    posterior: Posterior
    equations: Sequence[str] = ()
    """Blocks of MathML."""
    parameters: Sequence[str] = ()
    """The order in which to list quantities; those not named come after."""
    descriptions: Mapping[str, str] = field(default_factory=dict)
    fixed: Mapping[str, tuple[float, str]] = field(default_factory=dict)
    """Constants that were given: value and unit."""
    states: Mapping[int, States] = field(default_factory=dict)
    runs: Sequence[RunView] = ()
    problems: Sequence[str] = ()


@dataclass(frozen=True, eq=False)
class Content:
    """A whole report."""

    title: str
    data: Sequence[DataView]
    models: Sequence[ModelView]
    comparison: Any = None
    """A data frame by model, if there are several."""
    study: str = ""
    """The study file as used."""
    versions: Mapping[str, str] = field(default_factory=dict)
