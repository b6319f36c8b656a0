"""What the balance of the cascaded tanks may contain beside pump and outflows: the menu."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from probsysid.model.model import Model
from probsysid.selection.terms import Term, Terms

FULL = 10.0
"""Level of the rims, and of the sensor's limit, in volts of the sensor."""

BASE = Model(
    coordinates={"h1": 1, "h2": 1},
    dynamics=lambda s, u, p: {
        "h1": p.k4 * u.pump - p.k1 * jnp.sqrt(jnp.maximum(s.h1, 1e-3)),
        "h2": p.k2 * jnp.sqrt(jnp.maximum(s.h1, 1e-3)) - p.k3 * jnp.sqrt(jnp.maximum(s.h2, 1e-3)),
    },
    outputs=lambda s, u, p: {"level": s.h2},
    units={**{name: "V^0.5/s" for name in ("k1", "k2", "k3")}, "k4": "1/s", "level": "V"},
    name="cascaded tanks, selected",
)


def _normal(sd: float) -> dist.Distribution:
    return dist.Normal(0.0, sd)


def _near(median: float, spread: float = 1.0) -> dist.Distribution:
    return dist.LogNormal(np.log(median), spread)


def _above(level: str) -> str:
    """How far a level is above the rim, with a rounded corner."""
    return f"0.5*({level} - {FULL} + sqrt(({level} - {FULL})**2 + 0.01))"


def _raised(level: str, head: str) -> str:
    """What an outlet that lies lower than the tank's bottom adds to Torricelli's root."""
    return f"(sqrt(max({level} + {head}, 1e-3)) - sqrt(max({level}, 1e-3)))"


TERMS = Terms(
    Term("overflow of the upper tank", {"h1": f"-ko1*{_above('h1')}"}, priors={"ko1": _near(0.2, 0.7)}),
    Term("overflow of the lower tank", {"h2": f"-ko2*{_above('h2')}"}, priors={"ko2": _near(0.2, 0.7)}),
    Term(
        "overflow into the lower tank",
        {"h2": f"k5*ko1*{_above('h1')}"},
        priors={"k5": dist.Uniform(0.0, 1.0)},
        needs=("overflow of the upper tank",),
    ),
    Term("saturation of the sensor", outputs={"level": f"-{_above('level')}"}),
    Term("leak of the upper tank", {"h1": "-l1*h1"}, priors={"l1": _normal(0.01)}, units={"l1": "1/s"}),
    Term("leak of the lower tank", {"h2": "-l2*h2"}, priors={"l2": _normal(0.01)}, units={"l2": "1/s"}),
    Term("flow without voltage", {"h1": "d"}, priors={"d": _normal(0.02)}, units={"d": "V/s"}),
    Term("quadratic pump", {"h1": "q2*pump**2"}, priors={"q2": _normal(0.01)}),
    Term("cubic pump", {"h1": "q3*pump**3"}, priors={"q3": _normal(0.003)}),
    Term("upper outflow quadratic", {"h1": "-e1*h1**2", "h2": "e1*h1**2"}, priors={"e1": _normal(0.002)}),
    Term("lower outflow quadratic", {"h2": "-e2*h2**2"}, priors={"e2": _normal(0.002)}),
    Term(
        "head below the upper tank",
        {"h1": f"-k1*{_raised('h1', 'a1')}", "h2": f"k2*{_raised('h1', 'a1')}"},
        priors={"a1": _near(1.0)},
        units={"a1": "V"},
    ),
    Term(
        "head below the lower tank", {"h2": f"-k3*{_raised('h2', 'a2')}"}, priors={"a2": _near(1.0)}, units={"a2": "V"}
    ),
    Term("flow driven by both levels", {"h1": "b*h2", "h2": "-b*h2"}, priors={"b": _normal(0.01)}, units={"b": "1/s"}),
    Term("offset of the sensor", outputs={"level": "y0"}, priors={"y0": _normal(0.5)}, units={"y0": "V"}),
    Term("quadratic sensor", outputs={"level": "y2*(level - 5)**2"}, priors={"y2": _normal(0.01)}, units={"y2": "1/V"}),
    Term(
        "lag of the pump",
        inputs={"pump": "zp - pump"},
        coordinates={"zp": 1},
        equations={"zp": "(pump - zp)/Tp"},
        priors={"Tp": _near(4.0)},
        initial={"zp": 3.0},
        units={"Tp": "s"},
    ),
    Term(
        "lag of the sensor",
        outputs={"level": "zs - level"},
        coordinates={"zs": 1},
        equations={"zs": "(level - zs)/Ts"},
        priors={"Ts": _near(4.0)},
        initial={"zs": 5.2},
        units={"Ts": "s"},
    ),
    exclusive=(("offset of the sensor", "head below the lower tank"),),
)
"""An offset of the sensor and a head below the lower tank are nearly the same thing."""
