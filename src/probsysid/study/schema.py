"""The schema of a study file: its sections as pydantic models."""

import keyword
import math
from collections.abc import Callable
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from probsysid._internal.errors import InputError, did_you_mean
from probsysid._internal.validation import is_real, is_whole
from probsysid.data.intersample import Word
from probsysid.data.readers.sample_times import SECONDS
from probsysid.model.equations import CONSTANTS, FUNCTIONS, Equation, EquationError, parse
from probsysid.model.model import MAX_ORDER
from probsysid.model.noise import Noise
from probsysid.model.process_noise_prior import AUTO
from probsysid.model.varying import SEPARATE
from probsysid.study.catalogue import look_up
from probsysid.study.kernels import KernelTable
from probsysid.study.priors import Prior, parse_prior

MOST_PARTICLES = 10_000_000
"""A hundred thousand take a gigabyte; if memory runs out, JAX ends the process without a message."""


def _as_custom(error: InputError) -> PydanticCustomError:
    """One of our errors in pydantic's form; braces in its text are not placeholders."""
    return PydanticCustomError("ours", "{text}", {"text": str(error)})


def _name(value: str) -> str:
    if not (value.isidentifier() and not value.startswith("_") and "__" not in value):
        raise PydanticCustomError("ours", "a name has letters, digits and single underscores, and begins with a letter")
    if value in FUNCTIONS or value in CONSTANTS:
        raise PydanticCustomError("ours", "this name is taken by a function or constant of equations")
    if keyword.iskeyword(value):
        raise PydanticCustomError("ours", "this name is a word of Python and cannot be used in equations")
    return value


def _equation(value: object) -> Equation:
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = repr(value)
    try:
        return parse(value)
    except EquationError as error:
        raise _as_custom(error) from None


def _quantity(value: object) -> float | Prior:
    """A known number, or a prior."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise PydanticCustomError("ours", "it must be a number, or a prior such as 'LogNormal(0, 1)'")
    if isinstance(value, int | float):
        if abs(value) == float("inf") or value != value:
            raise PydanticCustomError("ours", "it must be finite")
        return float(value)
    try:
        return parse_prior(value)
    except InputError as error:
        raise _as_custom(error) from None


def _parameter(value: object) -> object:
    """Expand the short forms `m = 2.0` and `m = "LogNormal(0, 1)"` into tables."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return {"fixed": value}
    return {"prior": value} if isinstance(value, str) else value


def _channel(value: object) -> object:
    """Expand the short form `force = "F"` into a table."""
    return {"column": value} if isinstance(value, str | int) and not isinstance(value, bool) else value


def _range(value: object) -> object:
    """Expand `train = "all"` into a table."""
    return {"samples": [0, "end"]} if value == "all" else value


def _is_path(value: str) -> str:
    if not value.strip() or "\x00" in value:
        raise PydanticCustomError("ours", "name a file")
    return value


def _force(value: Any) -> Any:
    """A quantity, or "auto" for a prior from the data."""
    return value if value == AUTO else _quantity(value)


def _variation(value: Any) -> Any:
    """The spread of a parameter between records, or "separate"."""
    if value == SEPARATE:
        return value
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float | str)
        or (isinstance(value, str) and "(" not in value)
    ):
        text = f"it must be a prior of the spread such as 'HalfNormal(0.05)', a number, or '{SEPARATE}'"
        raise PydanticCustomError("ours", text)
    return _quantity(value)


Name = Annotated[str, AfterValidator(_name)]
EquationText = Annotated[Equation, BeforeValidator(_equation)]
Quantity = Annotated[float | Prior, BeforeValidator(_quantity)]
Force = Annotated[float | Prior | Literal["auto"], BeforeValidator(_force)]
Variation = Annotated[float | Prior | Literal["separate"], BeforeValidator(_variation)]
FilePath = Annotated[str, AfterValidator(_is_path)]
WholePositive = Annotated[int, Field(ge=1)]
Finite = Annotated[float, Field(allow_inf_nan=False)]


def _column(value: object) -> str | int:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise PydanticCustomError("ours", "it must be the name of a column, or its number from 1")
    return value


def _separator(value: str) -> str:
    if value != r"\s+" and (len(value) != 1 or value in '\n\r"'):
        raise PydanticCustomError("ours", r"it must be one character, or '\s+' for blanks")
    return value


def _not_zero(value: float) -> float:
    if value == 0:
        raise PydanticCustomError("ours", "it must not be zero: nothing of the data would be left")
    return value


def _auto_or_whole(value: object) -> object:
    if value != "auto" and (isinstance(value, bool) or not isinstance(value, int)):
        raise PydanticCustomError("ours", "it must be a whole number or 'auto'")
    return value


def _smoothness(value: object) -> object:
    if isinstance(value, dict):
        return {key: _auto_or_whole(item) for key, item in value.items()}
    return _auto_or_whole(value)


def _diffusion(value: object) -> object:
    positive = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf
    if not isinstance(value, str) and not positive:
        raise PydanticCustomError("ours", "it must be 'quasi-mle', 'dynamic' or a positive number")
    return value


# Sections


class Section(BaseModel):
    """Base of all tables of a study file; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, arbitrary_types_allowed=True, frozen=True)


class ChannelSection(Section):
    """Base of inputs and outputs, columns of the data file: `value = scale * column + offset`."""

    column: Annotated[Any, BeforeValidator(_column)]
    unit: str = ""
    scale: Annotated[Finite, AfterValidator(_not_zero)] = 1.0
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


Range = Annotated[RangeSection, BeforeValidator(_range)]


class DataSection(Section):
    """One data file, or one experiment in it."""

    file: FilePath
    name: str | None = None
    time: Annotated[Any, BeforeValidator(_column)] = None
    dt: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    time_unit: Literal["s", "ms", "us", "ns", "min", "h", "d"] = "s"
    jitter: Literal["auto", "keep", "remove"] = "auto"
    separator: Annotated[str, AfterValidator(_separator)] | None = None
    decimal: Literal[".", ","] | None = None
    encoding: str | None = None
    skip_lines: Annotated[int, Field(ge=0)] = 0
    inputs: dict[Name, Annotated[InputSection, BeforeValidator(_channel)]] = {}
    outputs: Annotated[dict[Name, Annotated[OutputSection, BeforeValidator(_channel)]], Field(min_length=1)]
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
        return _quantity(value)
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
        raise _as_custom(error) from None
    return section


OutputNoise = Annotated[float | Prior | NoiseSection, BeforeValidator(_output_noise)]
Parameter = Annotated[ParameterSection, BeforeValidator(_parameter)]


def _catalogue(value: str) -> str:
    try:
        look_up(value)
    except InputError as error:
        raise _as_custom(error) from None
    return value


class ModelSection(Section):
    """A model of the catalogue, or a model given by equations."""

    name: str | None = None
    catalogue: Annotated[str, AfterValidator(_catalogue)] | None = None
    masses: Annotated[int, Field(ge=1, le=8)] | None = None
    coordinates: dict[Name, Annotated[int, Field(ge=1, le=MAX_ORDER)]] = {}
    equations: dict[str, EquationText] = {}
    outputs: dict[str, EquationText] = {}
    let: dict[Name, EquationText] = {}
    parameters: dict[Name, Parameter] = {}
    initial: dict[str, Quantity] = {}
    noise: dict[str, OutputNoise] = {}
    process_noise: dict[str, Force] = {}
    varies: dict[str, Variation] = {}

    @model_validator(mode="after")
    def _one_kind(self) -> "ModelSection":
        if self.catalogue is None and not self.equations:
            raise PydanticCustomError("ours", "give either catalogue = 'duffing' (or another) or equations")
        if self.catalogue is not None and (self.equations or self.coordinates):
            raise PydanticCustomError("ours", "catalogue brings its own coordinates and equations: leave them out")
        if self.catalogue is None and self.masses is not None:
            raise PydanticCustomError("ours", "masses is for catalogue = 'mdof-chain'")
        return self


class SolverSection(Section):
    """The options of `probsysid.Solver`."""

    preset: Literal["default", "paper"] = "default"
    smoothness: Annotated[Any, BeforeValidator(_smoothness)] = None
    substeps: Annotated[Any, BeforeValidator(_auto_or_whole)] = None
    linearisation: str | None = None
    diffusion: Annotated[Any, BeforeValidator(_diffusion)] = None
    conditioning: str | None = None
    ode_noise: float | None = None
    pilot: bool | None = None


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


class Study(Section):
    """A whole study file."""

    title: str = ""
    seed: Annotated[int, Field(ge=0, le=2**63 - 1)] = 0
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


assert set(get_args(Word)) == set(get_args(InputSection.model_fields["intersample"].annotation))
assert set(SECONDS) == set(get_args(DataSection.model_fields["time_unit"].annotation))
