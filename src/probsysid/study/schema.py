"""What a study file may say, and every mistake in it at once.

Pydantic checks shapes and kinds; its findings are put into sentences that name the key, the value and the nearest
valid name.
"""

import keyword
import math
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from probsysid._internal.errors import InputError, did_you_mean
from probsysid._internal.validation import is_real, is_whole
from probsysid.data.intersample import Word
from probsysid.data.readers.sample_times import SECONDS
from probsysid.model.model import MAX_ORDER
from probsysid.study.catalogue import look_up
from probsysid.study.equations import CONSTANTS, FUNCTIONS, Equation, EquationError, parse
from probsysid.study.priors import Prior, parse_prior

MAX_FILE = 1_000_000
"""Bytes of a study file: a thousand times a long one."""

MOST_PARTICLES = 10_000_000
"""A hundred thousand take a gigabyte; where memory does not suffice, JAX ends the process without a word."""


class StudyError(InputError):
    """Everything that is wrong with a study, one sentence each."""

    def __init__(self, path: Any, problems: list[str]):
        self.problems = problems
        if len(problems) == 1:
            super().__init__(f"{path}: {problems[0]}")
        else:
            listed = "\n".join(f"  - {problem}" for problem in problems)
            super().__init__(f"{path} has {len(problems)} mistakes:\n{listed}")


# Kinds of values


def _own(error: InputError) -> PydanticCustomError:
    """An error of ours as pydantic carries it; braces in the text are no place holders."""
    return PydanticCustomError("ours", "{text}", {"text": str(error)})


def _name(value: Any) -> Any:
    if isinstance(value, str) and not (value.isidentifier() and not value.startswith("_") and "__" not in value):
        raise PydanticCustomError("ours", "a name has letters, digits and single underscores, and begins with a letter")
    if value in FUNCTIONS or value in CONSTANTS:
        raise PydanticCustomError("ours", "this name is taken by a function or constant of equations")
    if keyword.iskeyword(value):
        raise PydanticCustomError("ours", "this name is a word of Python and cannot be used in equations")
    return value


def _equation(value: Any) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = repr(value)
    try:
        return parse(value)
    except EquationError as error:
        raise _own(error) from None


def _quantity(value: Any) -> Any:
    """A number that is known, or a prior."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise PydanticCustomError("ours", "it must be a number, or a prior such as 'LogNormal(0, 1)'")
    if isinstance(value, int | float):
        if abs(value) == float("inf") or value != value:
            raise PydanticCustomError("ours", "it must be finite")
        return float(value)
    try:
        return parse_prior(value)
    except InputError as error:
        raise _own(error) from None


def _parameter(value: Any) -> Any:
    """`m = 2.0` and `m = "LogNormal(0, 1)"` are short for tables."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return {"fixed": value}
    return {"prior": value} if isinstance(value, str) else value


def _channel(value: Any) -> Any:
    return {"column": value} if isinstance(value, str | int) and not isinstance(value, bool) else value


def _range(value: Any) -> Any:
    return {"samples": [0, "end"]} if value == "all" else value


def _is_path(value: str) -> str:
    if not value.strip() or "\x00" in value:
        raise PydanticCustomError("ours", "name a file")
    return value


Name = Annotated[str, AfterValidator(_name)]
EquationText = Annotated[Equation, BeforeValidator(_equation)]
Quantity = Annotated[float | Prior, BeforeValidator(_quantity)]
FilePath = Annotated[str, AfterValidator(_is_path)]
Column = Annotated[Any, BeforeValidator(lambda v: _column(v))]
WholePositive = Annotated[int, Field(ge=1)]
Finite = Annotated[float, Field(allow_inf_nan=False)]


def _column(value: Any) -> Any:
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


def _auto_or_whole(value: Any) -> Any:
    if value != "auto" and (isinstance(value, bool) or not isinstance(value, int)):
        raise PydanticCustomError("ours", "it must be a whole number or 'auto'")
    return value


def _smoothness(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _auto_or_whole(item) for key, item in value.items()}
    return _auto_or_whole(value)


def _diffusion(value: Any) -> Any:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not isinstance(value, str) and not (number and 0 < value < math.inf):
        raise PydanticCustomError("ours", "it must be 'quasi-mle', 'dynamic' or a positive number")
    return value


# Sections


class Section(BaseModel):
    """A table that knows all its keys."""

    model_config = ConfigDict(extra="forbid", strict=True, arbitrary_types_allowed=True, frozen=True)


class ChannelSection(Section):
    """A column of the data file: `value = scale * column + offset`."""

    column: Column
    unit: str = ""
    scale: Annotated[Finite, AfterValidator(_not_zero)] = 1.0
    offset: Finite = 0.0


class InputSection(ChannelSection):
    """An input also says what it does between samples."""

    intersample: Literal["zoh", "linear", "bandlimited", "periodic"] = "linear"


class RangeSection(Section):
    """Part of a record, in seconds or in samples; the end is not included and may be "end"."""

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
    """Whether these are two numbers of a kind, the second larger or "end"."""
    if len(bounds) != 2 or not kind(bounds[0]) or not bounds[0] >= least:
        return False
    return bounds[1] == "end" or (kind(bounds[1]) and bounds[0] < bounds[1])


Range = Annotated[RangeSection, BeforeValidator(_range)]


class DataSection(Section):
    """One file, or one experiment in it."""

    file: FilePath
    name: str | None = None
    time: Annotated[Any, BeforeValidator(_column)] = None
    dt: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    time_unit: Literal["s", "ms", "us", "ns", "min", "h"] = "s"
    jitter: Literal["auto", "keep", "remove"] = "auto"
    separator: Annotated[str, AfterValidator(_separator)] | None = None
    decimal: Literal[".", ","] | None = None
    encoding: str | None = None
    skip_lines: Annotated[int, Field(ge=0)] = 0
    inputs: dict[Name, Annotated[InputSection, BeforeValidator(_channel)]] = {}
    outputs: Annotated[dict[Name, Annotated[ChannelSection, BeforeValidator(_channel)]], Field(min_length=1)]
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
    """A constant of the model: with a prior, or fixed."""

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


Parameter = Annotated[ParameterSection, BeforeValidator(_parameter)]


def _catalogue(value: str) -> str:
    try:
        look_up(value)
    except InputError as error:
        raise _own(error) from None
    return value


class ModelSection(Section):
    """A model of the catalogue, or equations."""

    name: str | None = None
    catalogue: Annotated[str, AfterValidator(_catalogue)] | None = None
    masses: Annotated[int, Field(ge=1, le=8)] | None = None
    coordinates: dict[Name, Annotated[int, Field(ge=1, le=MAX_ORDER)]] = {}
    equations: dict[str, EquationText] = {}
    outputs: dict[str, EquationText] = {}
    parameters: dict[Name, Parameter] = {}
    initial: dict[str, Quantity] = {}
    noise: dict[str, Quantity] = {}
    model_error: dict[str, Quantity] = {}

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
    """As `probsysid.Solver`."""

    preset: Literal["default", "paper"] = "default"
    smoothness: Annotated[Any, BeforeValidator(_smoothness)] = None
    substeps: Annotated[Any, BeforeValidator(_auto_or_whole)] = None
    linearisation: str | None = None
    diffusion: Annotated[Any, BeforeValidator(_diffusion)] = None
    conditioning: str | None = None
    ode_noise: float | None = None


class SamplerSection(Section):
    """As `probsysid.Sampler`, and how many fresh draws to end with."""

    preset: Literal["default", "paper"] = "default"
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
    refine: Annotated[int, Field(ge=64, le=MOST_PARTICLES)] | None = None


class ReportSection(Section):
    """What the report shows."""

    draws: Annotated[int, Field(ge=2, le=5000)] = 200
    """Draws of the posterior that are simulated."""
    states: bool = True
    """Smoothed states, which take one more pass over the data."""


class Study(Section):
    """A whole study file."""

    title: str = ""
    seed: Annotated[int, Field(ge=0, le=2**63 - 1)] = 0
    data: Annotated[list[DataSection], Field(min_length=1)]
    model: Annotated[list[ModelSection], Field(min_length=1)]
    parameters: dict[Name, Parameter] = {}
    noise: dict[str, Quantity] = {}
    initial: dict[str, Quantity] = {}
    model_error: dict[str, Quantity] = {}
    solver: SolverSection = SolverSection()
    sampler: SamplerSection = SamplerSection()
    report: ReportSection = ReportSection()


assert set(get_args(Word)) == set(get_args(InputSection.model_fields["intersample"].annotation))
assert set(SECONDS) == set(get_args(DataSection.model_fields["time_unit"].annotation))

SEVERAL = ("data", "model")
"""Sections of which there may be several: `[[data]]` in place of `[data]`."""


# From a file to a study


def read_toml(path: Path) -> dict[str, Any]:
    """The file's tables; what is no TOML is said with its line."""
    if not path.exists():
        near = did_you_mean(path.name, [p.name for p in path.parent.iterdir()]) if path.parent.is_dir() else ""
        raise InputError(f"there is no study {path}.{near}")
    if path.is_dir():
        raise InputError(f"{path} is a folder; name a study file.")
    if path.stat().st_size > MAX_FILE:
        raise InputError(f"{path} has {path.stat().st_size} bytes; is it a study file?")
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: it is not UTF-8 text (byte {error.start + 1}).") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        quote = "; is a quotation mark missing?" if "illegal character '\\n'" in str(error) else "."
        raise InputError(f"{path} is not TOML: {_sentence(str(error))}{quote}") from None
    except PermissionError:
        raise InputError(f"{path} may not be read: permission denied.") from None


def read_study(path: Path) -> Study:
    """A study that is right in itself; whether it fits its data is seen later."""
    return study_of(read_toml(path), path)


def study_of(tables: dict[str, Any], path: Any = "study") -> Study:
    """Check tables as they were read, or changed since."""
    listed = {key for key in SEVERAL if isinstance(tables.get(key), list)}
    several = {key: value if key in listed else [value] for key, value in tables.items() if key in SEVERAL}
    try:
        return Study.model_validate({**tables, **several})
    except ValidationError as error:
        problems = [_problem(item, listed) for item in error.errors(include_url=False)]
        raise StudyError(path, list(dict.fromkeys(problems))) from None


_MUST = {
    "int_type": "it must be a whole number",
    "int_from_float": "it must be a whole number",
    "float_type": "it must be a number",
    "finite_number": "it must be finite",
    "string_type": "it must be a text",
    "bool_type": "it must be true or false",
    "model_type": "it must be a table",
    "dict_type": "it must be a table",
    "list_type": "it must be a list",
    "none_required": "it must be left out",
}


def _problem(item: Any, listed: set[str]) -> str:
    """One of pydantic's findings as a sentence."""
    location, kind = tuple(item["loc"]), item["type"]
    key = _key(location, listed)
    if kind == "extra_forbidden":
        known = _known_keys(location[:-1])
        near = did_you_mean(str(location[-1]), known).replace("'", "`").replace(" Did", " did")
        return f"unknown key `{key}`;{near}" if near else f"unknown key `{key}`; known are: {', '.join(known)}."
    if kind == "missing":
        return f"`{key}` is missing."
    if kind == "ours":
        found = repr(item["input"])
        hidden = isinstance(item["input"], dict | list) or len(found) > 60 or item["msg"].startswith(found)
        shown = "" if hidden else f" is {found}"
        return f"`{key}`{shown}: {item['msg'].rstrip('.')}.".replace("?.", "?")
    shown = repr(item["input"])
    shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
    if kind == "literal_error":
        choices = item["ctx"]["expected"].replace(" or ", ", ")
        hint = did_you_mean(str(item["input"]), [c.strip("'") for c in choices.split(", ")])
        return f"`{key}` is {shown}; it must be one of {choices}.{hint}"
    if kind in ("too_short", "too_long", "string_too_short", "string_too_long"):
        return f"`{key}` is {shown}; {_sentence(item['msg'])}."
    return f"`{key}` is {shown}; {_MUST.get(kind) or _sentence(item['msg'])}."


def _sentence(text: str) -> str:
    """In lower case, without its full stop."""
    return (text[:1].lower() + text[1:]).rstrip(".").replace("input should be", "it must be").replace("\n", " ")


def _key(location: tuple[Any, ...], listed: set[str]) -> str:
    """`data.inputs.force.unit`; `data[1].file` where there are several, counted from 1."""
    key = ""
    for i, part in enumerate(location):
        if part == "[key]":
            continue
        if isinstance(part, int):
            if i != 1 or location[0] not in SEVERAL or location[0] in listed:
                key += f"[{part + 1}]"
        else:
            key += f".{part}" if key else str(part)
    return key


def _known_keys(location: tuple[Any, ...]) -> tuple[str, ...]:
    """The keys of the section at a place."""
    section: Any = Study
    for part in location:
        fields = getattr(section, "model_fields", {})
        if isinstance(part, str) and part in fields:
            section = _inner(fields[part].annotation)
    return tuple(section.model_fields) if hasattr(section, "model_fields") else ()


def _inner(annotation: Any) -> Any:
    """The section inside list[...], dict[..., ...], Annotated and unions; the annotation itself if there is none."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    for part in reversed(get_args(annotation)):
        found = _inner(part)
        if isinstance(found, type) and issubclass(found, Section):
            return found
    return None
