"""Predator and prey: counts of animals that are born and die by chance.

Hares and lynx: every birth and death is an event, and what is counted is a share of them. How fast do they breed, eat
and starve?
"""

# %% [markdown]
# ## The record
#
# Births of prey at the rate $a x$, predation at $b x y$, deaths of predators at $c y$: each event is simulated
# (Gillespie's algorithm). Every quarter of a year, a tenth of the animals are seen.

# %%
import sys
import tempfile
from pathlib import Path

import jax.numpy as jnp
import numpy as np

folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="probsysid-"))
folder.mkdir(parents=True, exist_ok=True)
truth, seen, dt = {"a": 0.5, "b": 0.0025, "c": 0.3}, 0.1, 0.25

random = np.random.default_rng(1)
x, y, t = 200.0, 100.0, 0.0
hares, lynx = [], []
for k in range(120):
    while t < k * dt:
        rates = np.array([truth["a"] * x, truth["b"] * x * y, truth["c"] * y])
        t += random.exponential(1 / rates.sum())
        event = random.choice(3, p=rates / rates.sum())
        x, y = x + (1, -1, 0)[event], y + (0, 1, -1)[event]
    hares.append(random.poisson(seen * x))
    lynx.append(random.poisson(seen * y))

# %% [markdown]
# ## Identify
#
# Between counts many events happen, so that their noise is nearly Gaussian: a diffusion with the square root of each
# rate as its factor. A hare that is eaten and the lynx that grows on it are one event, and share a Wiener process. What
# is counted is a Poisson number around a tenth of the animals.

# %%
import probsysid as ps
from probsysid import dist


def rates(s, p):
    x, y = jnp.maximum(s.x, 0.0), jnp.maximum(s.y, 0.0)
    return p.a * x, p.b * x * y, p.c * y


def dynamics(s, u, p):
    births, eaten, deaths = rates(s, p)
    return {"x": births - eaten, "y": eaten - deaths}


def diffusion(s, u, p):
    births, eaten, deaths = map(jnp.sqrt, rates(s, p))
    return {"x": {"births": births, "eaten": -eaten}, "y": {"eaten": eaten, "deaths": -deaths}}


model = ps.Model(
    coordinates={"x": 1, "y": 1},
    dynamics=dynamics,
    outputs=lambda s, u, p: {
        "hares": dist.Poisson(0.1 * jnp.maximum(s.x, 0.01)),
        "lynx": dist.Poisson(0.1 * jnp.maximum(s.y, 0.01)),
    },
    diffusion=diffusion,
    name="predator and prey",
)
record = ps.Record(outputs={"hares": np.array(hares), "lynx": np.array(lynx)}, dt=dt)
posterior = ps.identify(
    model,
    record,
    priors={"a": dist.LogNormal(-1, 1), "b": dist.LogNormal(-6, 1), "c": dist.LogNormal(-1, 1)},
    initial={"x": dist.LogNormal(5.3, 0.3), "y": dist.LogNormal(4.6, 0.3)},
    solver=ps.ParticleFilter(substeps=2),
    sampler=ps.Sampler(particles=256),
)
print(posterior.table()[["mean", "sd"]])
print(truth)
print(posterior)

# %% [markdown]
# ## How many were there?
#
# The smoothed states are the animals themselves, of which a tenth was seen.

# %%
import matplotlib.pyplot as plt

states = posterior.states(draws=32)
figure, axes = plt.subplots(2, 1, sharex=True, figsize=(7, 5), layout="constrained")
for axis, name, counts, label in zip(axes, "xy", (hares, lynx), ("hares", "lynx"), strict=True):
    low, high = states.band(name)
    axis.fill_between(states.time, low, high, alpha=0.3, label="mean ± 2 sd")
    axis.plot(states.time, states.mean[name])
    axis.plot(states.time, np.array(counts) / seen, ".", color="black", markersize=3, label="counted, times ten")
    axis.set_ylabel(label)
axes[0].legend()
axes[1].set_xlabel("years")
figure.savefig(folder / "animals.png", dpi=150)
