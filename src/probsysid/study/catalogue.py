"""The catalogue of models, each written as in a study file: coordinates, equations as text, named quantities.

The dimension of each parameter, in powers of force, length and time, turns the scales of the data into a first guess.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from probsysid._internal.errors import InputError, did_you_mean


@dataclass(frozen=True)
class ParameterHint:
    """Unit, description and scaling of a parameter, for a first guess."""

    unit: str
    description: str
    dimension: tuple[float, float, float] = (0, 0, 0)
    """Powers of force, length and time."""
    factor: float = 1.0
    """First guess as a multiple of the data's scales."""
    signed: bool = False


@dataclass(frozen=True)
class CatalogueModel:
    """A model of the catalogue."""

    title: str
    coordinates: Mapping[str, int]
    equations: Mapping[str, str]
    quantities: Mapping[str, str]
    """Measurable quantities: name -> expression."""
    inputs: Mapping[str, str]
    """Name -> unit."""
    parameters: Mapping[str, ParameterHint]
    units: Mapping[str, str] = field(default_factory=dict)
    """Units of the quantities."""


MOTION = {"position": "x", "velocity": "dx", "acceleration": "ddx"}
MOTION_UNITS = {"position": "m", "velocity": "m/s", "acceleration": "m/s^2"}

MASS = ParameterHint("kg", "mass", (1, -1, 2))
DAMPING = ParameterHint("N s/m", "viscous damping", (1, -1, 1), 0.1)
STIFFNESS = ParameterHint("N/m", "stiffness", (1, -1, 0))
QUADRATIC = ParameterHint("N/m^2", "quadratic stiffness", (1, -2, 0), 0.1, signed=True)
CUBIC = ParameterHint("N/m^3", "cubic stiffness", (1, -3, 0), 0.1)


def _oscillator(title: str, force: str, parameters: Mapping[str, ParameterHint]) -> CatalogueModel:
    return CatalogueModel(
        title,
        {"x": 2},
        {"x": f"(force - {force})/m"},
        MOTION,
        {"force": "N"},
        {"m": MASS, "c": DAMPING, **parameters},
        MOTION_UNITS,
    )


LONGEST_CHAIN = 40
"""Largest number of masses; 20 compile in about half a minute."""


@dataclass(frozen=True)
class Element:
    """A nonlinear element of a chain: its force, an expression of its elongation `e` and its rate `de`, pulls two
    masses together; mass 0 is the wall."""

    between: tuple[int, int]
    force: str

    def elongated(self, masses: int) -> str:
        """The force as an expression of positions and velocities."""
        lower, upper = self.between
        if not 0 <= lower < upper <= masses:
            raise InputError(
                f"an element lies between two masses of 0 (the wall) to {masses}, the lower first, found "
                f"{list(self.between)}."
            )
        rise = {"e": f"x{upper}" + f" - x{lower}" * (lower > 0), "de": f"dx{upper}" + f" - dx{lower}" * (lower > 0)}
        return re.sub(r"\b(e|de)\b", lambda found: f"({rise[found[1]]})", self.force)


def _chain(masses: int, elements: Sequence[Element] = ()) -> CatalogueModel:
    """Masses in a row from a wall to a free end, coupled by springs and dampers; the force acts on the last."""
    if not 1 <= masses <= LONGEST_CHAIN:
        raise InputError(f"mdof-chain has 1 to {LONGEST_CHAIN} masses, found {masses}.")
    equations: dict[str, str] = {}
    parameters: dict[str, ParameterHint] = {}
    for i in range(1, masses + 1):
        below, above = f"x{i - 1}", f"x{i + 1}"
        left = f"c{i}*(dx{i} - d{below}) + k{i}*(x{i} - {below})" if i > 1 else "c1*dx1 + k1*x1"
        right = f" + c{i + 1}*(d{above} - dx{i}) + k{i + 1}*({above} - x{i})" if i < masses else ""
        drive = "force - " if i == masses else "-"
        left = f"({left})" if drive == "-" or "+" in left else left
        signs = [("+" if i == e.between[0] else "-", e.elongated(masses)) for e in elements if i in e.between]
        more = "".join(f" {sign} ({force})" for sign, force in signs)
        equations[f"x{i}"] = f"({drive}{left}{right}{more})/m{i}"
        parameters |= {f"m{i}": MASS, f"c{i}": DAMPING, f"k{i}": STIFFNESS}
    quantities: dict[str, str] = {}
    units: dict[str, str] = {}
    for word, prefix in (("position", ""), ("velocity", "d"), ("acceleration", "dd")):
        quantities |= {f"{word}{i}": f"{prefix}x{i}" for i in range(1, masses + 1)}
        units |= {f"{word}{i}": MOTION_UNITS[word] for i in range(1, masses + 1)}
    coordinates = {f"x{i}": 2 for i in range(1, masses + 1)}
    return CatalogueModel(
        f"chain of {masses} masses", coordinates, equations, quantities, {"force": "N"}, parameters, units
    )


ENTRIES: dict[str, CatalogueModel] = {
    "linear-sdof": _oscillator("linear oscillator", "c*dx - k*x", {"k": STIFFNESS}),
    "duffing": _oscillator("Duffing oscillator", "c*dx - k*x - k3*x**3", {"k": STIFFNESS, "k3": CUBIC}),
    "duffing-asymmetric": _oscillator(
        "oscillator with quadratic and cubic stiffness",
        "c*dx - k*x - k2*x**2 - k3*x**3",
        {"k": STIFFNESS, "k2": QUADRATIC, "k3": CUBIC},
    ),
    "coulomb": _oscillator(
        "oscillator with dry friction",
        "c*dx - k*x - F_c*sign(dx)",
        {"k": STIFFNESS, "F_c": ParameterHint("N", "dry friction", (1, 0, 0), 0.1)},
    ),
    "bouc-wen": CatalogueModel(
        "Bouc-Wen hysteresis",
        {"x": 2, "z": 1},
        {"x": "(force - c*dx - k*x - z)/m", "z": "alpha*dx - beta*(gamma*abs(dx)*z + delta*dx*abs(z))"},
        {**MOTION, "hysteretic_force": "z"},
        {"force": "N"},
        {
            "m": MASS,
            "c": DAMPING,
            "k": STIFFNESS,
            "alpha": ParameterHint("N/m", "hysteretic stiffness", (1, -1, 0)),
            "beta": ParameterHint("1/m", "sharpness of the hysteresis", (0, -1, 0)),
            "gamma": ParameterHint("", "shape, with the speed", (0, 0, 0)),
            "delta": ParameterHint("", "shape, with the velocity", (0, 0, 0), -1.0, signed=True),
        },
        {**MOTION_UNITS, "hysteretic_force": "N"},
    ),
    "emps": CatalogueModel(
        "electro-mechanical positioning system",
        {"q": 2},
        {"q": "(force - F_v*dq - F_c*sign(dq) - offset)/M"},
        {"position": "q", "velocity": "dq", "acceleration": "ddq"},
        {"force": "N"},
        {
            "M": ParameterHint("kg", "inertia", (1, -1, 2)),
            "F_v": ParameterHint("N s/m", "viscous friction", (1, -1, 1)),
            "F_c": ParameterHint("N", "dry friction", (1, 0, 0), 0.3),
            "offset": ParameterHint("N", "offset of the force", (1, 0, 0), 0.1, signed=True),
        },
        MOTION_UNITS,
    ),
    "pendulum": CatalogueModel(
        "driven pendulum",
        {"theta": 2},
        {"theta": "(torque - c*dtheta - mgl*sin(theta))/J"},
        {"angle": "theta", "rate": "dtheta"},
        {"torque": "N m"},
        {
            "J": ParameterHint("kg m^2", "moment of inertia", (1, -1, 2)),
            "c": ParameterHint("N m s", "viscous damping", (1, -1, 1), 0.1),
            "mgl": ParameterHint("N m", "weight times length", (1, -1, 0)),
        },
        {"angle": "rad", "rate": "rad/s"},
    ),
    "free-pendulum": CatalogueModel(
        "pendulum that swings freely",
        {"theta": 2},
        {"theta": "-2*d*dtheta - omega**2*sin(theta)"},
        {"angle": "theta", "rate": "dtheta"},
        {},
        {
            "omega": ParameterHint("rad/s", "natural frequency of small swings", (0, 0, -1)),
            "d": ParameterHint("1/s", "decay rate", (0, 0, -1), 0.05),
        },
        {"angle": "rad", "rate": "rad/s"},
    ),
    "first-order-lag": CatalogueModel(
        "first-order lag",
        {"x": 1},
        {"x": "(gain*drive - x)/T"},
        {"response": "x"},
        {"drive": ""},
        {
            "gain": ParameterHint("", "response per drive in the steady state", (-1, 1, 0), signed=True),
            "T": ParameterHint("s", "time constant", (0, 0, 1)),
        },
    ),
    "motor": CatalogueModel(
        "motor with viscous and dry friction",
        {"speed": 1},
        {"speed": "k*current - a*speed - f*sign(speed)"},
        {"speed": "speed"},
        {"current": "A"},
        {
            "k": ParameterHint("rad/s^2/A", "torque constant over inertia", (-1, 1, -1)),
            "a": ParameterHint("1/s", "viscous friction over inertia", (0, 0, -1), 0.3),
            "f": ParameterHint("rad/s^2", "dry friction over inertia", (0, 1, -1), 0.1),
        },
        {"speed": "rad/s"},
    ),
    "one-compartment": CatalogueModel(
        "one compartment with first-order elimination",
        {"conc": 1},
        {"conc": "(dose - CL*conc)/V"},
        {"concentration": "conc"},
        {"dose": "mg/s"},
        {
            "CL": ParameterHint("L/s", "clearance", (1, -1, 0)),
            "V": ParameterHint("L", "volume of distribution", (1, -1, 1)),
        },
        {"concentration": "mg/L"},
    ),
    "van-der-pol": CatalogueModel(
        "Van der Pol oscillator",
        {"x": 2},
        {"x": "mu*(1 - x**2/a**2)*dx - omega**2*x"},
        {"position": "x", "velocity": "dx"},
        {},
        {
            "mu": ParameterHint("1/s", "strength of the self-excitation", (0, 0, -1)),
            "a": ParameterHint("m", "position beyond which it damps", (0, 1, 0)),
            "omega": ParameterHint("rad/s", "natural frequency", (0, 0, -1)),
        },
        {"position": "m", "velocity": "m/s"},
    ),
    "lotka-volterra": CatalogueModel(
        "predators and prey",
        {"prey": 1, "predators": 1},
        {"prey": "a*prey - b*prey*predators", "predators": "-c*predators + d*prey*predators"},
        {"prey": "prey", "predators": "predators"},
        {},
        {
            "a": ParameterHint("1/s", "growth of the prey", (0, 0, -1)),
            "b": ParameterHint("1/s", "loss to predators", (0, -1, -1)),
            "c": ParameterHint("1/s", "loss of predators", (0, 0, -1)),
            "d": ParameterHint("1/s", "growth of predators", (0, -1, -1)),
        },
    ),
    "cascaded-tanks": CatalogueModel(
        "two tanks, one above the other",
        {"h1": 1, "h2": 1},
        {
            "h1": "-k1*sqrt(max(h1, 1e-6)) + k4*flow",
            "h2": "k2*sqrt(max(h1, 1e-6)) - k3*sqrt(max(h2, 1e-6))",
        },
        {"level": "h2", "upper_level": "h1"},
        {"flow": "V"},
        {
            "k1": ParameterHint("", "outflow of the upper tank", (0, 0.5, -1)),
            "k2": ParameterHint("", "inflow of the lower tank", (0, 0.5, -1)),
            "k3": ParameterHint("", "outflow of the lower tank", (0, 0.5, -1)),
            "k4": ParameterHint("", "strength of the pump", (-1, 1, -1)),
        },
    ),
}
CHAIN = "mdof-chain"
NAMES = (*ENTRIES, CHAIN)


def look_up(name: str, masses: int | None = None, elements: Sequence[Element] = ()) -> CatalogueModel:
    """The model of a name; a chain takes its number of masses and its nonlinear elements."""
    if name == CHAIN:
        return _chain(2 if masses is None else masses, elements)
    if name not in ENTRIES:
        raise InputError(
            f"there is no model {name!r} in the catalogue; it has: {', '.join(NAMES)}.{did_you_mean(name, NAMES)}"
        )
    if masses is not None or elements:
        raise InputError(f"{'elements are' if elements else 'masses is'} for {CHAIN}, not for {name}.")
    return ENTRIES[name]
