"""The example of docs/selection.md: `python docs/figures/selection.py` writes its picture and prints its table."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import jax.numpy as jnp
import numpy as np

import probsysid as ps
from probsysid import dist
from probsysid.posterior.simulate import simulate

PLACE = Path(__file__).parent

model = ps.Model({"x": 2}, lambda s, u, p: {"x": (u.force - p.c * s.dx - p.k * s.x) / p.m}, name="mass on a spring")


def normal(name: str, text: str, width: float, **more: object) -> ps.Term:
    """A term whose coefficient may have either sign."""
    return ps.Term(name, {"x": f"-{text}/m"}, priors={text.split("*")[0]: dist.Normal(0, width)}, **more)


menu = ps.Terms(
    normal("quadratic stiffness", "k2*x**2", 1.0),
    normal("cubic stiffness", "k3*x**3", 1.0),
    normal("quintic stiffness", "k5*x**5", 1.0),
    normal("quadratic damping", "c2*dx*abs(dx)", 0.3),
    normal("cubic damping", "c3*dx**3", 0.3),
    ps.Term("Coulomb friction", {"x": "-fc*tanh(dx/0.02)/m"}, priors={"fc": dist.LogNormal(-3, 1)}),
    ps.Term(
        "Stribeck friction",
        {"x": "-fs*exp(-(dx/vs)**2)*tanh(dx/0.02)/m"},
        priors={"fs": dist.LogNormal(-3, 1), "vs": dist.LogNormal(-2, 0.7)},
        needs=["Coulomb friction"],
    ),
    normal("offset of the force", "f0", 0.2),
    ps.Term("offset of the sensor", outputs={"x": "x0"}, priors={"x0": dist.Normal(0, 0.1)}),
    ps.Term("drift of the sensor", outputs={"x": "rate*clock"}, priors={"rate": dist.Normal(0, 0.01)}),
    exclusive=[("quadratic stiffness", "offset of the force", "offset of the sensor")],
)


def measured(noise: float = 0.02, samples: int = 400, dt: float = 0.1) -> ps.Record:
    """A multisine force on a mass with a cubic stiffness and dry friction."""
    random = np.random.default_rng(1)
    time = dt * np.arange(samples)
    force = 0.3 * sum(np.cos(w * time + random.uniform(0, 6.28)) for w in np.linspace(0.3, 3, 10))
    record = ps.Record({"force": force, "clock": time}, {"x": np.zeros(samples)}, dt=dt)
    friction = ps.Model(
        {"x": 2}, lambda s, u, p: {"x": u.force - 0.1 * s.dx - s.x - p.k3 * s.x**3 - 0.05 * jnp.tanh(s.dx / 0.02)}
    )
    exact, _, _ = simulate(friction, {"k3": np.array([0.5])}, np.zeros((2, 1)), record, 16)
    return record.replace(outputs={"x": exact["x"][0] + noise * random.standard_normal(samples)})


def main() -> None:
    """Search the menu."""
    selection = ps.select(
        model,
        menu,
        measured(),
        priors={"m": dist.LogNormal(0, 0.5), "c": dist.LogNormal(-2, 1), "k": dist.LogNormal(0, 0.5)},
        noise={"x": dist.LogNormal(-4, 1)},
        initial={"x": 0.0, "dx": 0.0},
    )
    selection.tree(PLACE / "selection-tree.png")
    print(selection.table().to_string())
    print(selection)
    print(selection.alarm, selection.notes)


if __name__ == "__main__":
    main()
