"""`python -m validation.tanks_terms`: terms for the cascaded tanks, found by Laplace's evidence on the training record.

Models with more and more terms, each the best of its neighbours by screening, with what they leave on the validation
record in a free run; its initial levels are fitted to the first 50 samples, which are not scored.
"""

import time

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import probsysid as ps
from probsysid.benchmarks import tanks
from probsysid.posterior.simulate import simulate
from probsysid.selection.menu import Menu
from probsysid.selection.screening import Screened, Screening
from probsysid.selection.terms import Term, Terms

FULL = 10.0
"""Level of the rims, and of the sensor's limit, in volts of the sensor."""

BASE = ps.Model(
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


BASE_PRIORS = {name: tanks.PRIORS[name] for name in ("k1", "k2", "k3", "k4")}
UPPER, LOWER = np.linspace(1.0, 10.0, 25), np.linspace(4.8, 5.8, 11)
"""Initial levels that are tried on the validation record."""


def menu_on(record: ps.Record) -> Menu:
    """The menu, with the pump's voltage held and the noise taking the misfit."""
    names = ("process_noise", "varies", "unknown", "drifts")
    options = {**dict.fromkeys(names), "solver": ps.Solver(), "sampler": ps.Sampler(), "method": "map", "seed": 0}
    return Menu.make(BASE, TERMS, record, BASE_PRIORS, tanks.NOISE, tanks.INITIAL, options)


def validation_rmse(menu: Menu, screening: Screening, found: Screened, record: ps.Record) -> float:
    """Of a free run at the maximum a posteriori."""
    particle = screening.problem.particle(screening.problem.space.values_of_one(found.theta), 0)
    model, size = menu.model_of(found.names), len(UPPER) * len(LOWER)
    upper, lower = (each.ravel() for each in np.meshgrid(UPPER, LOWER))
    own = dict(zip(screening.problem.model.physical_names, particle.initial_mean, strict=True))
    levels = {**{name: np.full(size, float(value)) for name, value in own.items()}, "h1": upper, "h2": lower}
    parameters = {name: np.full(size, float(particle.parameters[name])) for name in model.parameter_names}
    start = np.stack([levels[name] for name in model.physical_names])
    errors = simulate(model, parameters, start, record, tanks.STEPS)[0]["level"] - np.asarray(record.outputs["level"])
    first = tanks.START_SAMPLES
    best = int(np.argmin(np.mean(errors[:, :first] ** 2, axis=1)))
    return float(np.sqrt(np.mean(errors[best, first:] ** 2)))


def main() -> None:
    train, test = (tanks.record(part).replace(intersample="zoh") for part in ("Est", "Val"))
    menu = menu_on(train)
    screening, names, began = Screening(menu), frozenset[str](), time.perf_counter()
    best = screening.begin(names)
    while True:
        rmse = validation_rmse(menu, screening, best, test)
        print(f"{time.perf_counter() - began:.0f} s | {TERMS.label(names)} | {best.log_evidence:.1f} | {rmse:.3f} V")
        near = TERMS.neighbours(names, exchanges=False)
        screening.extend(best, near)
        names = max((names, *near), key=lambda each: screening.found[each].log_evidence)
        if names == best.names:
            return
        best = screening.found[names]


if __name__ == "__main__":
    main()
