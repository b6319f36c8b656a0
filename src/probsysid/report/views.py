"""What a page shows, as data.

First what a report is made from, free of its origin (a study, or a posterior on its own): `Content`.  Then what each
section of a page lays out: text and numbers ready to print, keys of interactive figures, drawings.  A `PagePart` names
the template in `templates/sections` that lays out its content.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from probsysid._internal.notebook import Verdict
from probsysid.data.record import Record
from probsysid.posterior.posterior import Posterior
from probsysid.posterior.simulate import Simulation
from probsysid.posterior.states import States
from probsysid.posterior.unknown_inputs import UnknownInputs

# What a report is made from


@dataclass(frozen=True, eq=False)
class DataView:
    """A whole record with its training and test ranges."""

    name: str
    record: Record
    train: slice | None
    test: slice | None
    notes: Sequence[str] = ()
    file: str = ""


@dataclass(frozen=True, eq=False)
class RunView:
    """A free-run simulation over a section of a record."""

    name: str
    simulation: Simulation
    train: slice | None
    test: slice | None
    scores: Mapping[str, Mapping[str, Mapping[str, float]]]
    """Range -> output -> scores."""
    start: str
    """Origin of the initial state, in words."""


@dataclass(frozen=True, eq=False)
class ModelView:
    """One model and its results."""

    name: str
    posterior: Posterior
    equations: Sequence[str] = ()
    """Blocks of MathML, safe to embed: names in them are escaped."""
    parameters: Sequence[str] = ()
    """The order in which to list quantities; those not named come after."""
    descriptions: Mapping[str, str] = field(default_factory=dict)
    fixed: Mapping[str, tuple[float, str]] = field(default_factory=dict)
    """Constants that were given: value and unit."""
    states: Mapping[int, States] = field(default_factory=dict)
    """Smoothed states by the index of the training record."""
    inputs: Mapping[int, UnknownInputs] = field(default_factory=dict)
    """Unknown inputs and drifts by the index of the training record."""
    runs: Sequence[RunView] = ()
    problems: Sequence[str] = ()
    """What could not be computed, in sentences without a full stop."""


@dataclass(frozen=True, eq=False)
class Content:
    """A whole report."""

    title: str
    data: Sequence[DataView]
    models: Sequence[ModelView]
    comparison: pd.DataFrame | None = None
    """One row per model, the best first, where there are several."""
    study: str = ""
    """The study file as used."""
    versions: Mapping[str, str] = field(default_factory=dict)


def record_name(record: Record, index: int) -> str:
    """The name of a training record, or its number."""
    return record.name or f"record {index + 1}"


# What a page lays out


@dataclass(frozen=True)
class PagePart:
    """Content and the name of the template that lays it out."""

    template: str
    content: object
    heading: str = ""


@dataclass(frozen=True)
class PageSection:
    """A section that the navigation lists."""

    anchor: str
    title: str
    parts: Sequence[PagePart]


@dataclass(frozen=True)
class Table:
    """Cells as text or numbers ready to print; no header row if `head` is empty."""

    rows: Sequence[Sequence[object]]
    head: Sequence[str] = ()
    numeric: Collection[int] = ()
    """Columns that are aligned to the right."""
    best: bool = False
    """Whether to emphasise the first row."""


@dataclass(frozen=True)
class TitledTable:
    """A table under a line of text."""

    title: str
    table: Table


@dataclass(frozen=True)
class Drawing:
    """A picture, or none where nothing could be drawn."""

    description: str
    png: bytes | None


@dataclass(frozen=True)
class ParameterRow:
    """A quantity, inferred or given, as text."""

    name: str
    description: str
    mean: str
    sd: str
    interval: str
    unit: str
    flags: str = ""
    given: bool = False


@dataclass(frozen=True)
class ParameterTable:
    """Quantities; columns that would be empty are left out."""

    rows: Sequence[ParameterRow]
    described: bool
    flagged: bool


@dataclass(frozen=True)
class Summary:
    """The result in short, of the model with the highest evidence."""

    models: int
    best: str
    tiles: Sequence[tuple[str, str]]
    """Value and label."""
    parameters: ParameterTable
    precision: Sequence[str]
    """How well each constant is known, in sentences without a full stop."""
    identifiability: Sequence[str]
    """Formulas that are known while the parameters in them are not."""
    lights: Sequence[Verdict]
    """On integration, sampling and model."""
    problems: Sequence[str]
    """What else is to be known, in sentences without a full stop."""
    picture: Drawing | None = None
    """The first free run and its error."""


@dataclass(frozen=True)
class RecordSummary:
    """A record: facts and a figure of its signals."""

    facts: Table
    figure: str


@dataclass(frozen=True)
class Parameters:
    """Priors and posteriors."""

    listed: ParameterTable | None
    identifiability: Sequence[str]
    """Formulas that are known while the parameters in them are not; with the table only."""
    flagged: bool
    marginals: Drawing
    priors: Table
    corner: Drawing | None


@dataclass(frozen=True)
class Integration:
    """Accuracy of the ODE solver: verdict, and shares of the uncertainty by source."""

    verdict: str
    shares: Table | None


@dataclass(frozen=True)
class RunFit:
    """A free run against the measurements."""

    name: str
    scores: Table | None
    start: str
    figures: Sequence[str]
    remarks: Sequence[str] = ()
    """On clipped samples and outliers."""


@dataclass(frozen=True)
class RecordStates:
    """Smoothed states of a record; `first` is their number of samples where that is not the whole record."""

    name: str
    figure: str
    first: int | None


@dataclass(frozen=True)
class RecordInputs:
    """Unknown inputs and drifts of a record; `first` as for states, `spectra` where samples are equally spaced."""

    name: str
    sentences: Sequence[str]
    figure: str
    spectra: Drawing | None
    first: int | None


@dataclass(frozen=True)
class OutputResiduals:
    """One-step prediction errors of an output."""

    verdict: str
    white: bool
    figures: Sequence[str]


@dataclass(frozen=True)
class Sampling:
    """Cost and course of the sampling."""

    particles: int | None
    rejuvenations: int
    sweeps: str
    seconds: str
    lost: int
    rarely_accepted: bool
    figure: str | None
    modes: "Table | None"
    """Means beside the best mode."""
    laplace: str
    """The evidence beside Laplace's."""


@dataclass(frozen=True)
class Settings:
    """What is needed to repeat the run."""

    settings: Sequence[tuple[str, Table]]
    """Title and table for each model."""
    study: str
    versions: Table | None
