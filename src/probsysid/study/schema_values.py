"""Values in a study file: names, equations, priors, columns; checked, and short forms expanded."""

import keyword
import math
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from probsysid._internal.errors import InputError
from probsysid.model.equations import CONSTANTS, FUNCTIONS, Equation, EquationError, parse
from probsysid.model.process_noise_prior import AUTO
from probsysid.model.varying import SEPARATE
from probsysid.study.priors import Prior, parse_prior


def as_custom(error: InputError) -> PydanticCustomError:
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
        raise as_custom(error) from None


def checked_quantity(value: object) -> float | Prior:
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
        raise as_custom(error) from None


def expanded_parameter(value: object) -> object:
    """Expand the short forms `m = 2.0` and `m = "LogNormal(0, 1)"` into tables."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return {"fixed": value}
    return {"prior": value} if isinstance(value, str) else value


def expanded_channel(value: object) -> object:
    """Expand the short form `force = "F"` into a table."""
    return {"column": value} if isinstance(value, str | int) and not isinstance(value, bool) else value


def expanded_range(value: object) -> object:
    """Expand `train = "all"` into a table."""
    return {"samples": [0, "end"]} if value == "all" else value


def _is_path(value: str) -> str:
    if not value.strip() or "\x00" in value:
        raise PydanticCustomError("ours", "name a file")
    return value


def _force(value: Any) -> Any:
    """A quantity, or "auto" for a prior from the data."""
    return value if value == AUTO else checked_quantity(value)


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
    return checked_quantity(value)


Name = Annotated[str, AfterValidator(_name)]
EquationText = Annotated[Equation, BeforeValidator(_equation)]
Quantity = Annotated[float | Prior, BeforeValidator(checked_quantity)]
Force = Annotated[float | Prior | Literal["auto"], BeforeValidator(_force)]
Variation = Annotated[float | Prior | Literal["separate"], BeforeValidator(_variation)]
FilePath = Annotated[str, AfterValidator(_is_path)]
WholePositive = Annotated[int, Field(ge=1)]
Finite = Annotated[float, Field(allow_inf_nan=False)]


def checked_column(value: object) -> str | int:
    """The name or the number of a column."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise PydanticCustomError("ours", "it must be the name of a column, or its number from 1")
    return value


def checked_separator(value: str) -> str:
    """One character, or `\\s+` for blanks."""
    if value != r"\s+" and (len(value) != 1 or value in '\n\r"'):
        raise PydanticCustomError("ours", r"it must be one character, or '\s+' for blanks")
    return value


def not_zero(value: float) -> float:
    """A factor that leaves something of the data."""
    if value == 0:
        raise PydanticCustomError("ours", "it must not be zero: nothing of the data would be left")
    return value


def auto_or_whole(value: object) -> object:
    """A whole number, or "auto"."""
    if value != "auto" and (isinstance(value, bool) or not isinstance(value, int)):
        raise PydanticCustomError("ours", "it must be a whole number or 'auto'")
    return value


def checked_smoothness(value: object) -> object:
    """One number, or one for each coordinate."""
    if isinstance(value, dict):
        return {key: auto_or_whole(item) for key, item in value.items()}
    return auto_or_whole(value)


def checked_diffusion(value: object) -> object:
    """The name of a diffusion, or a fixed scale."""
    positive = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf
    if (not isinstance(value, str) and not positive) or value == "inferred":
        raise PydanticCustomError("ours", "it must be 'quasi-mle', 'dynamic' or a positive number")
    return value
