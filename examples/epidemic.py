"""An epidemic: Poisson counts of reported cases, day by day.

In a town of ten thousand a few people fall ill. Each day a twentieth of those who are ill see a doctor. How infectious
is it, and how many are ill now?
"""

# %% [markdown]
# ## The record
#
# Infections at the rate $b S I / N$ and recoveries at $g I$ happen one by one.

# %%
import sys
import tempfile
from pathlib import Path

import jax.numpy as jnp
import numpy as np

folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="probsysid-"))
folder.mkdir(parents=True, exist_ok=True)
truth, people, share = {"b": 0.45, "g": 0.2}, 10_000, 0.05

random = np.random.default_rng(2)
healthy, ill, reported = people - 10, 10, []
for _ in range(60):
    reported.append(random.poisson(share * ill))
    for _ in range(100):
        infected = random.binomial(healthy, 1 - np.exp(-0.01 * truth["b"] * ill / people))
        recovered = random.binomial(ill, 1 - np.exp(-0.01 * truth["g"]))
        healthy, ill = healthy - infected, ill + infected - recovered

# %% [markdown]
# ## Identify, day by day
#
# An `Identifier` takes the days as they come; its posterior is that of a batch run, to the last digit.

# %%
import probsysid as ps
from probsysid import dist


def infections(s, p):
    return p.b * jnp.maximum(s.s, 0.0) * jnp.maximum(s.i, 0.0) / 10_000


def recoveries(s, p):
    return p.g * jnp.maximum(s.i, 0.0)


model = ps.Model(
    coordinates={"s": 1, "i": 1},
    dynamics=lambda s, u, p: {"s": -infections(s, p), "i": infections(s, p) - recoveries(s, p)},
    outputs=lambda s, u, p: {"reported": dist.Poisson(0.05 * jnp.maximum(s.i, 0.1))},
    diffusion=lambda s, u, p: {
        "s": {"infections": -jnp.sqrt(infections(s, p))},
        "i": {"infections": jnp.sqrt(infections(s, p)), "recoveries": -jnp.sqrt(recoveries(s, p))},
    },
    name="epidemic",
)
online = ps.Identifier(
    model,
    priors={"b": dist.LogNormal(-1, 0.5), "g": dist.LogNormal(-1.5, 0.5)},
    noise={},
    initial={"s": 9990.0, "i": dist.LogNormal(2.3, 0.5)},
    dt=1.0,
    solver=ps.ParticleFilter(substeps=2),
    sampler=ps.Sampler(particles=256),
)
known = []
for day, cases in enumerate(reported):
    online.update({}, {"reported": cases})
    if day % 5 == 0 and day:
        posterior = online.posterior
        ratio = posterior.columns["b"] / posterior.columns["g"]
        mean = posterior.weights @ ratio
        known.append((day, mean, np.sqrt(posterior.weights @ (ratio - mean) ** 2)))
print(online.posterior.table()[["mean", "sd"]])
print(truth)

# %% [markdown]
# ## What was known when
#
# The number that one case infects at first, $b / g$, from the cases so far.

# %%
import matplotlib.pyplot as plt

days, means, sds = np.array(known).T
figure, (above, below) = plt.subplots(2, 1, sharex=True, figsize=(7, 5), layout="constrained")
above.plot(reported, ".", color="black")
above.set_ylabel("reported cases")
below.errorbar(days, means, 2 * sds, fmt="o", label="mean ± 2 sd")
below.axhline(truth["b"] / truth["g"], color="black", linewidth=1, label="truth")
below.set_ylabel("b / g")
below.set_xlabel("day")
below.legend()
figure.savefig(folder / "epidemic.png", dpi=150)
