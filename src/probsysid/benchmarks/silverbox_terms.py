"""What the Silverbox's equation may contain beside mass, damping and stiffness: the menu, and the filter's phase.

Forces are in volts of the input; a force that adds to the left-hand side is divided by the mass with a minus sign.
"""

import numpy as np
import numpyro.distributions as dist

from probsysid.model.model import Model
from probsysid.selection.terms import Term, Terms

PHASES = tuple(round(0.1 * step, 1) for step in range(16))
"""Phase in radians at 200 Hz, proportional to the cube of the frequency, that the anti-alias filters of both channels
add and that is undone; 0.5 is where the search begins."""

BASE = Model(
    coordinates={"x": 2},
    dynamics=lambda s, u, p: {"x": (u.force - p.c * s.dx - p.k * s.x) / p.m},
    outputs=lambda s, u, p: {"position": s.x},
    units={"m": "s^2", "c": "s", "position": "V"},
    name="Silverbox, selected",
)


def _normal(sd: float) -> dist.Distribution:
    return dist.Normal(0.0, sd)


def _near(median: float, spread: float = 1.0) -> dist.Distribution:
    return dist.LogNormal(np.log(median), spread)


TERMS = Terms(
    Term("force offset", {"x": "offset/m"}, priors={"offset": _normal(0.05)}, units={"offset": "V"}),
    Term("output offset", outputs={"position": "y0"}, priors={"y0": _normal(0.05)}, units={"y0": "V"}),
    Term("quadratic stiffness", {"x": "-k2*x**2/m"}, priors={"k2": _normal(1.0)}, units={"k2": "1/V"}),
    Term("cubic stiffness", {"x": "-k3*x**3/m"}, priors={"k3": _normal(10.0)}, units={"k3": "1/V^2"}),
    Term("quartic stiffness", {"x": "-k4*x**4/m"}, priors={"k4": _normal(10.0)}),
    Term("quintic stiffness", {"x": "-k5*x**5/m"}, priors={"k5": _normal(30.0)}),
    Term("bilinear stiffness", {"x": "-kb*max(x, 0)/m"}, priors={"kb": _normal(0.1)}),
    Term("odd quadratic stiffness", {"x": "-ka*abs(x)*x/m"}, priors={"ka": _normal(1.0)}),
    Term(
        "stiffness at small amplitudes",
        {"x": "-fk*x/sqrt(x**2 + xs**2)/m"},
        priors={"fk": _normal(0.01), "xs": _near(0.03)},
        units={"fk": "V", "xs": "V"},
    ),
    Term(
        "damping at small velocities",
        {"x": "-fc*dx/sqrt(dx**2 + vs**2)/m"},
        priors={"fc": _normal(0.003), "vs": _near(10.0)},
        units={"fc": "V", "vs": "V/s"},
    ),
    Term("dry friction", {"x": "-ff*tanh(dx/0.5)/m"}, priors={"ff": _normal(0.003)}, units={"ff": "V"}),
    Term("quadratic damping", {"x": "-c2*abs(dx)*dx/m"}, priors={"c2": _normal(1e-5)}),
    Term("cubic damping", {"x": "-c3*dx**3/m"}, priors={"c3": _normal(1e-6)}),
    Term("damping that depends on the side", {"x": "-cx*x*dx/m"}, priors={"cx": _normal(1e-3)}),
    Term("damping that depends on the position", {"x": "-cxx*x**2*dx/m"}, priors={"cxx": _normal(1e-2)}),
    Term("stiffness that depends on the force", {"x": "-kp*force*x/m"}, priors={"kp": _normal(0.3)}),
    Term("quadratic input", inputs={"force": "u2*force**2"}, priors={"u2": _normal(0.3)}),
    Term("cubic input", inputs={"force": "u3*force**3"}, priors={"u3": _normal(1.0)}),
    Term("quadratic output", outputs={"position": "y2*position**2"}, priors={"y2": _normal(0.3)}),
    Term("cubic output", outputs={"position": "y3*position**3"}, priors={"y3": _normal(1.0)}),
    Term(
        "lag of the input",
        inputs={"force": "za - force"},
        coordinates={"za": 1},
        equations={"za": "(force - za)/Ta"},
        priors={"Ta": _near(1e-4)},
        units={"Ta": "s"},
    ),
    Term(
        "lag of the sensor",
        outputs={"position": "zs - position"},
        coordinates={"zs": 1},
        equations={"zs": "(position - zs)/Ts"},
        priors={"Ts": _near(1e-4)},
        units={"Ts": "s"},
    ),
    Term(
        "relaxation",
        {"x": "-zr/m"},
        coordinates={"zr": 1},
        equations={"zr": "kr*dx - zr/Tr"},
        priors={"kr": _near(0.01), "Tr": _near(3e-3)},
        units={"Tr": "s"},
    ),
    Term(
        "hysteresis",
        {"x": "-zh/m"},
        coordinates={"zh": 1},
        equations={"zh": "kh*(dx - abs(dx)*zh/fh)"},
        priors={"kh": _near(0.05), "fh": _near(3e-3)},
        units={"fh": "V"},
    ),
    exclusive=(("output offset", "quadratic stiffness"), ("dry friction", "hysteresis")),
)
"""A shifted origin makes an offset of the output and a quadratic stiffness, with a force, the same thing."""
