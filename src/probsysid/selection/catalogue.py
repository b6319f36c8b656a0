"""Terms of the field by name: forces, friction, hysteresis, sensors and actuators.

`catalogue_term("coulomb", "x")` adds to coordinate `x`, of order 2.  Its force is divided by the parameter or number
that `mass` names; names of own parameters and coordinates end with the term's name if `suffix` is given.  Priors are
given by the user: only she knows what size is plausible.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from probsysid._internal.errors import InputError, did_you_mean
from probsysid.model.priors import Priors
from probsysid.selection.terms import Term


@dataclass(frozen=True)
class CatalogueTerm:
    """One entry: its expressions, with `{x}`, `{v}` for the coordinate and its velocity, and `{y}` for an output or
    `{u}` for an input that it belongs to."""

    title: str
    parameters: tuple[str, ...]
    force: str = ""
    """That resists motion: minus it, over the mass, is added to the acceleration."""
    output: str = ""
    """Added to the output {y}."""
    input: str = ""
    """Added to the input {u}."""
    coordinates: Mapping[str, int] = field(default_factory=dict)
    equations: Mapping[str, str] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """What it belongs to: a coordinate, an output or an input."""
        return "coordinate" if self.force else "output" if self.output else "input"


SIGN = "tanh({v}/v0)"
"""Direction of motion, smooth below the speed v0."""

STRIBECK = "(fc + (fs - fc)*exp(-({v}/vs)**2))"
"""Level of dry friction: fs at rest, fc at speeds above vs."""

# Powers of |z| are smooth at zero, where their derivatives would not be finite: 1e-12 in the square.
ENTRIES: dict[str, CatalogueTerm] = {
    "quadratic-stiffness": CatalogueTerm("stiffness k2 x^2", ("k2",), "k2*{x}**2"),
    "cubic-stiffness": CatalogueTerm("stiffness k3 x^3", ("k3",), "k3*{x}**3"),
    "quintic-stiffness": CatalogueTerm("stiffness k5 x^5", ("k5",), "k5*{x}**5"),
    "bilinear-stiffness": CatalogueTerm("stiffness that differs by kb for x > 0", ("kb",), "kb*max({x}, 0)"),
    "dead-zone": CatalogueTerm(
        "stiffness kd beyond a gap g on both sides, smooth over w (backlash of a joint)",
        ("kd", "g", "w"),
        "kd*({x} - 0.5*w*(log(cosh(({x} + g)/w)) - log(cosh(({x} - g)/w))))",
    ),
    "pendulum-gravity": CatalogueTerm("gravity kg sin(x)", ("kg",), "kg*sin({x})"),
    "quadratic-damping": CatalogueTerm("quadratic drag c2 v |v|", ("c2",), "c2*{v}*abs({v})"),
    "cubic-damping": CatalogueTerm("damping c3 v^3", ("c3",), "c3*{v}**3"),
    "viscous-by-direction": CatalogueTerm("viscous friction that differs by cd for v > 0", ("cd",), "cd*max({v}, 0)"),
    "coulomb": CatalogueTerm("Coulomb friction fc sign(v), smooth below v0", ("fc", "v0"), f"fc*{SIGN}"),
    "stribeck": CatalogueTerm(
        "Stribeck friction: fs at rest, fc at speeds above vs", ("fc", "fs", "vs", "v0"), f"{STRIBECK}*{SIGN}"
    ),
    "position-friction": CatalogueTerm("Coulomb friction fp |x|", ("fp", "v0"), f"fp*abs({{x}})*{SIGN}"),
    "ripple": CatalogueTerm(
        "force with period L in position", ("ra", "rb", "L"), "ra*sin(2*pi*{x}/L) + rb*cos(2*pi*{x}/L)"
    ),
    "force-offset": CatalogueTerm("constant force", ("f0",), "f0"),
    "dahl": CatalogueTerm(
        "Dahl friction of stiffness s0 and level fc",
        ("s0", "fc"),
        "s0*{z}",
        coordinates={"z": 1},
        equations={"z": "{v} - s0*abs({v})*{z}/fc"},
    ),
    "lugre": CatalogueTerm(
        "LuGre friction: bristles of stiffness s0 and damping s1, Stribeck curve fc, fs, vs",
        ("s0", "s1", "fc", "fs", "vs"),
        f"s0*{{z}} + s1*({{v}} - s0*abs({{v}})*{{z}}/{STRIBECK})",
        coordinates={"z": 1},
        equations={"z": f"{{v}} - s0*abs({{v}})*{{z}}/{STRIBECK}"},
    ),
    "bouc-wen": CatalogueTerm(
        "hysteretic force kz z",
        ("kz", "A", "beta", "gamma", "n"),
        "kz*{z}",
        coordinates={"z": 1},
        equations={"z": "A*{v} - beta*abs({v})*({z}**2 + 1e-12)**((n - 1)/2)*{z} - gamma*{v}*({z}**2 + 1e-12)**(n/2)"},
    ),
    "bouc-wen-degrading": CatalogueTerm(
        "Bouc-Wen-Baber-Noori: strength and stiffness degrade with the dissipated energy, and loops pinch",
        ("kz", "A", "beta", "gamma", "n", "dnu", "deta", "zs", "p", "zw"),
        "kz*{z}",
        coordinates={"z": 1, "e": 1},
        equations={
            "z": "(1 - zs*(1 - exp(-p*{e}))*exp(-({z}/zw)**2))/(1 + deta*{e})*(A*{v} - (1 + dnu*{e})"
            "*(beta*abs({v})*({z}**2 + 1e-12)**((n - 1)/2)*{z} + gamma*{v}*({z}**2 + 1e-12)**(n/2)))",
            "e": "{z}*{v}",
        },
    ),
    "sensor-offset": CatalogueTerm("offset y0", ("y0",), output="y0"),
    "sensor-drift": CatalogueTerm(
        "offset that grows with rate yd", ("yd",), output="yd*{t}", coordinates={"t": 1}, equations={"t": "1"}
    ),
    "saturation": CatalogueTerm("an input that saturates smoothly at us", ("us",), input="us*tanh({u}/us) - {u}"),
    "overflow": CatalogueTerm(
        "an output that ends at ym, smoothly over w: a tank that overflows",
        ("ym", "w"),
        output="-0.5*({y} - ym + sqrt(({y} - ym)**2 + w**2))",
    ),
    "input-delay": CatalogueTerm(
        "an input that comes D late: Pade's approximation of order two",
        ("D",),
        input="-12*d{d}/D",
        coordinates={"d": 2},
        equations={"d": "{u} - 6/D*d{d} - 12/D**2*{d}"},
    ),
    "sensor-lag": CatalogueTerm(
        "a sensor with time constant T",
        ("T",),
        output="{s} - {y}",
        coordinates={"s": 1},
        equations={"s": "({y} - {s})/T"},
    ),
    "sensor-lag-2": CatalogueTerm(
        "a sensor of second order, natural frequency wn and damping ratio zn",
        ("wn", "zn"),
        output="{s} - {y}",
        coordinates={"s": 2},
        equations={"s": "wn**2*({y} - {s}) - 2*zn*wn*d{s}"},
    ),
    "actuator-lag": CatalogueTerm(
        "an actuator with time constant T",
        ("T",),
        input="{a} - {u}",
        coordinates={"a": 1},
        equations={"a": "({u} - {a})/T"},
    ),
    "actuator-lag-2": CatalogueTerm(
        "an actuator of second order, natural frequency wn and damping ratio zn",
        ("wn", "zn"),
        input="{a} - {u}",
        coordinates={"a": 2},
        equations={"a": "wn**2*({u} - {a}) - 2*zn*wn*d{a}"},
    ),
}

NAMES = tuple(ENTRIES)


def catalogue_term(
    kind: str,
    of: str,
    priors: Priors,
    *,
    name: str | None = None,
    mass: str | None = None,
    suffix: str = "",
    needs: Sequence[str] = (),
) -> Term:
    """A term of the catalogue.

    Args:
        kind: its name, such as `"coulomb"`.
        of: the coordinate (of order 2), output or input that it belongs to.
        priors: of its parameters, by the names of the catalogue, with the suffix.
        name: in place of `kind`.
        mass: a parameter by which forces are divided; without one they are forces per mass.
        suffix: at the end of the names of own parameters and coordinates, where a menu has several alike.
        needs: as of `Term`.
    """
    if kind not in ENTRIES:
        hint = did_you_mean(kind, NAMES)
        raise InputError(f"there is no term {kind!r} in the catalogue; it has: {', '.join(NAMES)}.{hint}")
    entry = ENTRIES[kind]
    wanted = tuple(f"{p}{suffix}" for p in entry.parameters)
    given = [n for key in priors for n in (key if isinstance(key, tuple) else (key,))]
    if set(given) != set(wanted):
        odd = min(set(given) ^ set(wanted))
        raise InputError(f"the term {kind!r} has the parameters {', '.join(wanted)}; the priors differ in {odd!r}.")
    own = {c: f"{c}_{kind.replace('-', '_')}{suffix}" for c in entry.coordinates}

    def read(text: str) -> str:
        for parameter in entry.parameters if suffix else ():
            text = re.sub(rf"(?<![\w{{]){parameter}(?![\w}}])", f"{parameter}{suffix}", text)
        return text.format(x=of, v=f"d{of}", y=of, u=of, **own)

    force = f"-({read(entry.force)})" + (f"/{mass}" if mass else "")
    return Term(
        name or kind,
        dynamics={of: force} if entry.force else {},
        outputs={of: read(entry.output)} if entry.output else {},
        inputs={of: read(entry.input)} if entry.input else {},
        priors=priors,
        needs=needs,
        coordinates={own[c]: order for c, order in entry.coordinates.items()},
        equations={own[c]: read(text) for c, text in entry.equations.items()},
        description=entry.title,
    )
