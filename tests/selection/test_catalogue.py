"""Terms of the catalogue against what textbooks say, at random points."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import probsysid as ps
from probsysid import InputError, dist
from probsysid.selection.catalogue import ENTRIES, NAMES, catalogue_term
from probsysid.selection.extension import extended

PRIOR = dist.LogNormal(0, 0.3)
model = ps.Model({"x": 2}, lambda s, u, p: {"x": u.force - p.k * s.x}, lambda s, u, p: {"y": 2 * s.x})


def level(q: Any, v: float) -> float:
    return q["fc"] + (q["fs"] - q["fc"]) * np.exp(-((v / q["vs"]) ** 2))


def baber_noori(q: Any, v: float, z: float, e: float) -> float:
    pinching = 1 - q["zs"] * (1 - np.exp(-q["p"] * e)) * np.exp(-((z / q["zw"]) ** 2))
    loop = q["beta"] * abs(v) * abs(z) ** (q["n"] - 1) * z + q["gamma"] * v * abs(z) ** q["n"]
    return pinching * (q["A"] * v - (1 + q["dnu"] * e) * loop) / (1 + q["deta"] * e)


def bouc_wen(q: Any, v: float, z: float) -> float:
    return q["A"] * v - q["beta"] * abs(v) * abs(z) ** (q["n"] - 1) * z - q["gamma"] * v * abs(z) ** q["n"]


def bristle(q: Any, v: float, z: float) -> float:
    return v - q["s0"] * abs(v) * z / level(q, v)


FORCES: dict[str, Callable[..., float]] = {
    "quadratic-stiffness": lambda q, x, v: q["k2"] * x**2,
    "cubic-stiffness": lambda q, x, v: q["k3"] * x**3,
    "quintic-stiffness": lambda q, x, v: q["k5"] * x**5,
    "bilinear-stiffness": lambda q, x, v: q["kb"] * x if x > 0 else 0.0,
    "pendulum-gravity": lambda q, x, v: q["kg"] * np.sin(x),
    "quadratic-damping": lambda q, x, v: q["c2"] * v * abs(v),
    "cubic-damping": lambda q, x, v: q["c3"] * v**3,
    "viscous-by-direction": lambda q, x, v: q["cd"] * v if v > 0 else 0.0,
    "coulomb": lambda q, x, v: q["fc"] * np.tanh(v / q["v0"]),
    "stribeck": lambda q, x, v: level(q, v) * np.tanh(v / q["v0"]),
    "position-friction": lambda q, x, v: q["fp"] * abs(x) * np.tanh(v / q["v0"]),
    "ripple": lambda q, x, v: q["ra"] * np.sin(2 * np.pi * x / q["L"]) + q["rb"] * np.cos(2 * np.pi * x / q["L"]),
    "force-offset": lambda q, x, v: q["f0"],
    "dead-zone": lambda q, x, v: (
        q["kd"] * (x - q["w"] / 2 * np.log(np.cosh((x + q["g"]) / q["w"]) / np.cosh((x - q["g"]) / q["w"])))
    ),
    "dahl": lambda q, x, v, z: q["s0"] * z,
    "lugre": lambda q, x, v, z: q["s0"] * z + q["s1"] * bristle(q, v, z),
    "bouc-wen": lambda q, x, v, z: q["kz"] * z,
    "bouc-wen-degrading": lambda q, x, v, z, e: q["kz"] * z,
}
OWN: dict[str, Callable[..., list[float]]] = {
    # Dahl (1968) with F = s0 z: dF/dt = s0 v (1 - F/fc sign v)
    "dahl": lambda q, x, v, y, u, z: [v * (1 - q["s0"] * z / q["fc"] * np.sign(v))],
    # Canudas de Wit and others (1995)
    "lugre": lambda q, x, v, y, u, z: [bristle(q, v, z)],
    "bouc-wen": lambda q, x, v, y, u, z: [bouc_wen(q, v, z)],
    # Baber and Noori (1985), pinching about z = 0
    "bouc-wen-degrading": lambda q, x, v, y, u, z, e: [baber_noori(q, v, z, e), z * v],
    "sensor-drift": lambda q, x, v, y, u, t: [1.0],
    "sensor-lag": lambda q, x, v, y, u, s: [(y - s) / q["T"]],
    "sensor-lag-2": lambda q, x, v, y, u, s, ds: [q["wn"] ** 2 * (y - s) - 2 * q["zn"] * q["wn"] * ds],
    "actuator-lag": lambda q, x, v, y, u, a: [(u - a) / q["T"]],
    "actuator-lag-2": lambda q, x, v, y, u, a, da: [q["wn"] ** 2 * (u - a) - 2 * q["zn"] * q["wn"] * da],
    "input-delay": lambda q, x, v, y, u, d, dd: [u - 6 / q["D"] * dd - 12 / q["D"] ** 2 * d],
}
OUTPUTS: dict[str, Callable[..., float]] = {
    "sensor-offset": lambda q, y: y + q["y0"],
    "sensor-drift": lambda q, y, t: y + q["yd"] * t,
    "overflow": lambda q, y: y - ((y - q["ym"]) + np.sqrt((y - q["ym"]) ** 2 + q["w"] ** 2)) / 2,
    "sensor-lag": lambda q, y, s: s,
    "sensor-lag-2": lambda q, y, s, ds: s,
}
INPUTS: dict[str, Callable[..., float]] = {
    "saturation": lambda q, u: q["us"] * np.tanh(u / q["us"]),
    "actuator-lag": lambda q, u, a: a,
    "actuator-lag-2": lambda q, u, a, da: a,
    "input-delay": lambda q, u, d, dd: u - 12 / q["D"] * dd,
}


@pytest.mark.parametrize("suffix", ["", "_2"])
@pytest.mark.parametrize("kind", NAMES)
def test_a_term_is_what_textbooks_say(kind: str, suffix: str) -> None:
    entry = ENTRIES[kind]
    of = {"coordinate": "x", "output": "y", "input": "force"}[entry.place]
    priors = {f"{name}{suffix}": PRIOR for name in entry.parameters}
    term = catalogue_term(kind, of, priors, mass="m" if entry.force else None, suffix=suffix)
    given = extended(model, [term], ["force"])
    random = np.random.default_rng(len(kind))
    for _ in range(5):
        q = {name: float(random.uniform(0.5, 1.5)) for name in entry.parameters}
        x, v, force = random.normal(size=3)
        own = list(random.normal(size=len(given.physical_names) - 2))
        if kind == "bouc-wen-degrading":
            own[1] = abs(own[1])
        parameters = {f"{name}{suffix}": value for name, value in q.items()} | {"k": 0.7, "m": 1.3}
        found = [float(value) for value in given.highest_derivatives([x, v, *own], [force], parameters)]
        driven = INPUTS[kind](q, force, *own) if entry.input else force
        pushed = FORCES[kind](q, x, v, *own) / 1.3 if entry.force else 0.0
        expected = [driven - 0.7 * x - pushed]
        expected += OWN[kind](q, x, v, 2 * x, force, *own) if kind in OWN else []
        assert np.allclose(found, expected, rtol=1e-8, atol=1e-8)  # powers of |z| are smooth over 1e-6
        measured = float(given.measured([x, v, *own], found, [force], parameters)[0])
        expected_output = OUTPUTS[kind](q, 2 * x, *own) if entry.output else 2 * x
        assert np.isclose(measured, expected_output, rtol=1e-10, atol=1e-12)


def test_a_delay_is_that_of_a_slow_input() -> None:
    """Against a sine that comes late, to the order of the approximation: its phase is wrong by (w D)^5/720."""
    delay, frequency = 0.3, 1.0
    s = 1j * frequency
    late = 1 - 12 / delay * s / (s**2 + 6 / delay * s + 12 / delay**2)
    assert abs(late - np.exp(-s * delay)) < 1.1 * (frequency * delay) ** 5 / 720


def test_a_dead_zone_is_one() -> None:
    def smooth(x: float, w: float = 0.01) -> float:
        return FORCES["dead-zone"]({"kd": 2.0, "g": 0.5, "w": w}, x, 0.0)

    assert abs(smooth(0.3)) < 1e-12 and np.isclose(smooth(0.8), 0.6) and np.isclose(smooth(-0.8), -0.6)


def test_a_wrong_name_or_prior_is_refused() -> None:
    with pytest.raises(InputError, match=r"there is no term 'coulom' in the catalogue.*Did you mean 'coulomb'"):
        catalogue_term("coulom", "x", {})
    with pytest.raises(InputError, match="'coulomb' has the parameters fc, v0; the priors differ in 'v0'"):
        catalogue_term("coulomb", "x", {"fc": PRIOR})
