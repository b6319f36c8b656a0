"""The schema of a study file: its sections as pydantic models."""

import math
from collections.abc import Callable
from functools import cached_property
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from probsysid._internal.errors import InputError, did_you_mean
from probsysid._internal.validation import is_real, is_whole
from probsysid.data.intersample import Word
from probsysid.data.readers.sample_times import SECONDS
from probsysid.model.model import MAX_ORDER
from probsysid.model.noise import Noise
from probsysid.study.catalogue import LONGEST_CHAIN, CatalogueModel, Element, look_up
from probsysid.study.indices import End
from probsysid.study.kernels import KernelTable
from probsysid.study.priors import Prior
from probsysid.study.schema_values import (
    EquationText,
    FilePath,
    Finite,
    Force,
    Name,
    Quantity,
    Variation,
    WholePositive,
    as_custom,
    auto_or_whole,
    checked_column,
    checked_diffusion,
    checked_quantity,
    checked_separator,
    checked_smoothness,
    expanded_channel,
    expanded_parameter,
    expanded_range,
    not_zero,
)

MOST_PARTICLES = 10_000_000
"""A hundred thousand take a gigabyte; if memory runs out, JAX ends the process without a message."""


class Section(BaseModel):
    """Base of all tables of a study file; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, arbitrary_types_allowed=True, frozen=True)


class ChannelSection(Section):
    """Base of inputs and outputs, columns of the data file: `value = scale * column + offset`."""

    column: Annotated[Any, BeforeValidator(checked_column)]
    unit: str = ""
    scale: Annotated[Finite, AfterValidator(not_zero)] = 1.0
    offset: Finite = 0.0


class OutputSection(ChannelSection):
    """A measured output."""


class InputSection(ChannelSection):
    """An input, with its course between samples."""

    intersample: Literal["zoh", "linear", "bandlimited", "periodic"] = "linear"


class RangeSection(Section):
    """A part of a record, in seconds or in samples; the end is excluded and may be "end"."""

    seconds: list[Any] | None = None
    samples: list[Any] | None = None
    skip: Annotated[int, Field(ge=0)] = 0

    @model_validator(mode="after")
    def _one_kind(self) -> "RangeSection":
        if (self.seconds is None) == (self.samples is None):
            raise PydanticCustomError("ours", "give either seconds = [from, to] or samples = [from, to]")
        if self.samples is not None and not _increasing(self.samples, is_whole, least=0):
            raise PydanticCustomError("ours", "a range is two increasing whole numbers; the second may be 'end'")
        if self.seconds is not None and not _increasing(self.seconds, is_real, least=-math.inf):
            raise PydanticCustomError("ours", "a range is two increasing numbers; the second may be 'end'")
        return self


def _increasing(bounds: list[Any], kind: Callable[[Any], bool], least: float) -> bool:
    """Whether these are two numbers of a type, the second larger or "end"."""
    if len(bounds) != 2 or not kind(bounds[0]) or not bounds[0] >= least:
        return False
    return bounds[1] == "end" or (kind(bounds[1]) and bounds[0] < bounds[1])


Range = Annotated[RangeSection, BeforeValidator(expanded_range)]


class DataSection(Section):
    """One data file, or one experiment in it."""

    file: FilePath
    name: str | None = None
    time: Annotated[Any, BeforeValidator(checked_column)] = None
    dt: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    time_unit: Literal["s", "ms", "us", "ns", "min", "h", "d"] = "s"
    jitter: Literal["auto", "keep", "remove"] = "auto"
    separator: Annotated[str, AfterValidator(checked_separator)] | None = None
    decimal: Literal[".", ","] | None = None
    encoding: str | None = None
    skip_lines: Annotated[int, Field(ge=0)] = 0
    inputs: dict[Name, Annotated[InputSection, BeforeValidator(expanded_channel)]] = {}
    outputs: Annotated[dict[Name, Annotated[OutputSection, BeforeValidator(expanded_channel)]], Field(min_length=1)]
    train: Range | None = None
    test: Range | None = None
    initial: dict[str, Quantity] = {}

    @model_validator(mode="after")
    def _one_time(self) -> "DataSection":
        if (self.time is None) == (self.dt is None):
            found = "neither" if self.time is None else "both"
            raise PydanticCustomError("ours", f"give either time (a column) or dt (seconds), found {found}")
        if self.decimal is not None and self.decimal == self.separator:
            raise PydanticCustomError("ours", f"separator and decimal are both '{self.decimal}'")
        both = set(self.inputs) & set(self.outputs)
        if both:
            raise PydanticCustomError("ours", f"'{min(both)}' is both an input and an output; rename one")
        return self


class ParameterSection(Section):
    """A constant of the model, with a prior or fixed."""

    prior: Quantity | None = None
    fixed: Finite | None = None
    unit: str = ""
    description: str = ""

    @model_validator(mode="after")
    def _one_kind(self) -> "ParameterSection":
        if (self.prior is None) == (self.fixed is None):
            found = "neither" if self.prior is None else "both"
            raise PydanticCustomError("ours", f"give either prior or fixed, found {found}")
        return self


class NoiseSection(Section):
    """The measurement noise of an output: the options of `probsysid.Noise`."""

    level: Quantity | None = None
    transform: Literal["log"] | None = None
    degrees: Force | None = None
    step: Finite | None = None
    lower: Finite | None = None
    upper: Finite | None = None
    time: Quantity | None = None


def _output_noise(value: Any) -> Any:
    """A level, or a table of options."""
    if not isinstance(value, dict | NoiseSection):
        return checked_quantity(value)
    try:
        section = NoiseSection.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        if first["type"] == "extra_forbidden":
            known = tuple(NoiseSection.model_fields)
            key = str(first["loc"][0])
            text = f"there is no key {key!r}; known are: {', '.join(known)}.{did_you_mean(key, known)}"
            raise PydanticCustomError("ours", "{text}", {"text": text}) from None
        text = f"{first['loc'][0]}: {first['msg']}"
        raise PydanticCustomError("ours", "{text}", {"text": text}) from None
    given = {name: getattr(section, name) for name in NoiseSection.model_fields}
    try:
        Noise(**{name: item.distribution if isinstance(item, Prior) else item for name, item in given.items()})
    except InputError as error:
        raise as_custom(error) from None
    return section


OutputNoise = Annotated[float | Prior | NoiseSection, BeforeValidator(_output_noise)]
Parameter = Annotated[ParameterSection, BeforeValidator(expanded_parameter)]


def _catalogue(value: str) -> str:
    try:
        look_up(value)
    except InputError as error:
        raise as_custom(error) from None
    return value


class SolverSection(Section):
    """The options of `probsysid.Solver`."""

    preset: Literal["default", "paper"] = "default"
    smoothness: Annotated[Any, BeforeValidator(checked_smoothness)] = None
    substeps: Annotated[Any, BeforeValidator(auto_or_whole)] = None
    linearisation: str | None = None
    diffusion: Annotated[Any, BeforeValidator(checked_diffusion)] = None
    conditioning: str | None = None
    ode_noise: float | None = None
    pilot: bool | None = None
    likelihood: str | None = None


class ElementSection(Section):
    """A nonlinear element of a chain of masses."""

    between: Annotated[list[int], Field(min_length=2, max_length=2)]
    force: EquationText


class TermSection(Section):
    """An optional term of a model: the arguments of `probsysid.Term`, or those of `probsysid.catalogue_term`."""

    term: str | None = None
    of: str | None = None
    mass: str | None = None
    suffix: str = ""
    dynamics: dict[Name, EquationText] = {}
    outputs: dict[Name, EquationText] = {}
    inputs: dict[Name, EquationText] = {}
    parameters: dict[Name, Parameter] = {}
    needs: list[str] = []
    coordinates: dict[Name, Annotated[int, Field(ge=1, le=MAX_ORDER)]] = {}
    equations: dict[Name, EquationText] = {}
    initial: dict[str, Quantity] = {}
    description: str = ""

    @model_validator(mode="after")
    def _one_kind(self) -> "TermSection":
        own = self.dynamics or self.outputs or self.inputs or self.coordinates or self.equations or self.initial
        if self.term is not None and (own or self.of is None):
            raise PydanticCustomError(
                "ours",
                "term = '...' needs of = '...' and brings its own expressions: leave these out",
            )
        if self.term is None and (self.of is not None or self.mass is not None or self.suffix):
            raise PydanticCustomError("ours", "of, mass and suffix go with term = '...', a term of the catalogue")
        return self


class ModelSection(Section):
    """A model of the catalogue, or a model given by equations."""

    name: str | None = None
    catalogue: Annotated[str, AfterValidator(_catalogue)] | None = None
    masses: Annotated[int, Field(ge=1, le=LONGEST_CHAIN)] | None = None
    elements: list[ElementSection] = []
    coordinates: dict[Name, Annotated[int, Field(ge=1, le=MAX_ORDER)]] = {}
    equations: dict[str, EquationText] = {}
    outputs: dict[str, EquationText] = {}
    let: dict[Name, EquationText] = {}
    parameters: dict[Name, Parameter] = {}
    initial: dict[str, Quantity] = {}
    noise: dict[str, OutputNoise] = {}
    process_noise: dict[str, Force] = {}
    varies: dict[str, Variation] = {}
    solver: SolverSection | None = None
    candidates: dict[str, TermSection] = {}
    exclusive: list[list[str]] = []

    @model_validator(mode="after")
    def _one_kind(self) -> "ModelSection":
        if self.catalogue is None and not self.equations:
            raise PydanticCustomError("ours", "give either catalogue = 'duffing' (or another) or equations")
        if self.catalogue is not None and (self.equations or self.coordinates):
            raise PydanticCustomError("ours", "catalogue brings its own coordinates and equations: leave them out")
        if self.catalogue is None and self.masses is not None:
            raise PydanticCustomError("ours", "masses is for catalogue = 'mdof-chain'")
        try:
            entry = self.entry
        except InputError as error:
            raise as_custom(error) from None
        if entry is None and self.elements:
            raise PydanticCustomError("ours", "elements are for catalogue = 'mdof-chain'")
        return self

    @cached_property
    def entry(self) -> CatalogueModel | None:
        """The model of the catalogue, if it is one."""
        if self.catalogue is None:
            return None
        elements = [Element((e.between[0], e.between[1]), e.force.text) for e in self.elements]
        return look_up(self.catalogue, self.masses, elements)


class SamplerSection(Section):
    """The options of `probsysid.Sampler`, how the posterior is found (`method`), and the number of fresh draws at the
    end (`refine`)."""

    preset: Literal["default", "paper"] = "default"
    method: Literal["sample", "map"] = "sample"
    particles: Annotated[int, Field(le=MOST_PARTICLES)] | None = None
    ess: float | None = None
    move: str | None = None
    resampling: str | None = None
    islands: int | None = None
    moved: float | None = None
    max_moves: int | None = None
    bridge: float | None = None
    chain: int | None = None
    cross_fit: bool | None = None
    path: str | None = None
    recover: bool | None = None
    budget: float | None = None
    seconds: float | None = None
    refine: Annotated[int, Field(ge=64, le=MOST_PARTICLES)] | None = None


class ReportSection(Section):
    """The contents of the report."""

    draws: Annotated[int, Field(ge=2, le=5000)] = 200
    """Posterior draws that are simulated."""
    states: bool = True
    """Whether to smooth states, which takes one more pass over the data."""


class IndexSection(Section):
    """The values of an index, and what lies beyond the ends of the row."""

    first: Annotated[int, Field(ge=0)] = 1
    last: int
    below: End | None = None
    above: End | None = None

    @model_validator(mode="after")
    def _a_row(self) -> "IndexSection":
        if not self.first < self.last <= self.first + LONGEST_ROW:
            text = f"last must be larger than first ({self.first}), by {LONGEST_ROW} at most, found {self.last}"
            raise PydanticCustomError("ours", "{text}", {"text": text})
        if (self.below == "ring") != (self.above == "ring"):
            raise PydanticCustomError("ours", "a ring closes at both ends: below = 'ring' and above = 'ring'")
        return self


LONGEST_ROW = 200
"""Largest difference of an index from its first value to its last."""


class SelectionSection(Section):
    """How `select` searches the terms of a model: the options of `probsysid.SearchOptions`."""

    budget: WholePositive | None = None
    beam: WholePositive | None = None
    width: WholePositive | None = None
    workers: WholePositive | None = None
    expansions: WholePositive | None = None
    reach: Finite | None = None
    model_prior: Literal["sizes", "models"] | None = None
    starts: list[list[str]] | None = None
    screen: bool | None = None


class Study(Section):
    """A whole study file."""

    title: str = ""
    seed: Annotated[int, Field(ge=0, le=2**63 - 1)] = 0
    index: dict[Name, IndexSection] = {}
    data: Annotated[list[DataSection], Field(min_length=1)]
    model: Annotated[list[ModelSection], Field(min_length=1)]
    parameters: dict[Name, Parameter] = {}
    noise: dict[str, OutputNoise] = {}
    initial: dict[str, Quantity] = {}
    process_noise: dict[str, Force] = {}
    varies: dict[str, Variation] = {}
    unknown: dict[Name, KernelTable] = {}
    drifts: dict[str, KernelTable] = {}
    solver: SolverSection = SolverSection()
    sampler: SamplerSection = SamplerSection()
    report: ReportSection = ReportSection()
    selection: SelectionSection = SelectionSection()

    @property
    def measured_inputs(self) -> tuple[str, ...]:
        """Unknown inputs that have a column and a noise: they are measured, with that noise."""
        noisy = {*self.noise, *(name for section in self.model for name in section.noise)}
        columns = {name for data in self.data for name in data.inputs}
        return tuple(name for name in self.unknown if name in noisy and name in columns)


assert set(get_args(Word)) == set(get_args(InputSection.model_fields["intersample"].annotation))
assert set(SECONDS) == set(get_args(DataSection.model_fields["time_unit"].annotation))
