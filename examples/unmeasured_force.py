"""An unmeasured force: what excites an oscillator, from its motion alone.

A mast in gusty wind: its displacement is measured, the force of the wind is not. How stiff is the mast, how is it
damped, and what did the wind do?
"""

# %% [markdown]
# ## The record
#
# $\ddot x = f - c\dot x - kx$ with a force $f$ per mass that nobody has measured. It is simulated as an
# Ornstein-Uhlenbeck process: rough, and correlated over some seconds. It is kept in the record under its own name, to
# be compared with afterwards; an input that is declared unknown is not used.

# %%
import sys
import tempfile
from pathlib import Path

import numpy as np

folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="probsysid-"))
folder.mkdir(parents=True, exist_ok=True)
truth = {"c": 0.2, "k": 4.0, "force.scale": 1.0, "force.length": 2.0}

random, dt, fine = np.random.default_rng(1), 0.2, 100
decay = np.exp(-dt / fine / truth["force.length"])
x, v, f = 0.0, 0.0, random.normal()
positions, forces = [], []
for _ in range(300):
    positions.append(x)
    forces.append(f)
    for _ in range(fine):
        v += dt / fine * (f - truth["c"] * v - truth["k"] * x)
        x += dt / fine * v
        f = decay * f + np.sqrt(1 - decay**2) * random.normal()
noisy = np.array(positions) + 0.01 * random.normal(size=300)

# %% [markdown]
# ## Identify
#
# The model is written as if the force were known. `unknown` gives it a prior over functions: a Matern process with
# `nu=0.5`, whose standard deviation and correlation length are inferred with everything else.
#
# Mass and force cannot be told apart: twice the mass under twice the force moves in the same way. Here the equation is
# divided by the mass, and the force is one per mass. A model with a mass `m` of its own would be found out: the table
# marks `m` as *tied to force.scale (only force.scale/m is known)*, and says what would tell them apart.

# %%
import probsysid as ps
from probsysid import dist

mast = ps.Model(
    coordinates={"x": 2},
    dynamics=lambda s, u, p: {"x": u.force - p.c * s.dx - p.k * s.x},
    outputs=lambda s, u, p: {"position": s.x},
    units={"c": "1/s", "k": "1/s^2", "force": "N/kg"},
)
record = ps.Record(inputs={"force": forces}, outputs={"position": noisy}, dt=dt, units={"position": "m"})
posterior = ps.identify(
    mast,
    record,
    priors={"c": dist.LogNormal(np.log(0.2), 1), "k": dist.LogNormal(np.log(4), 1)},
    noise={"position": 0.01},
    initial={"x": 0.0, "dx": 0.0},
    unknown={"force": ps.Matern(0.5, scale=dist.LogNormal(0, 1), length=dist.LogNormal(0, 1))},
    sampler=ps.Sampler(particles=256),
)
print(posterior.table()[["mean", "sd", "q05", "q95", "unit"]].assign(truth=truth).round(3))

# %% [markdown]
# ## The force
#
# `posterior.inputs()` has the force at the samples with its band, over the parameters as well as over what noise leaves
# open; sample paths are joint draws. Where the record has an input of that name, it is compared with.

# %%
found = posterior.inputs(draws=100)
found.plot(folder / "force.png")
print(f"mean square error {found.nmse('force'):.1f} % of the force's variance")
print(f"within the 90 % band: {100 * found.coverage('force'):.0f} % of the samples")

# %% [markdown]
# ## A force that was measured for a while
#
# Suppose that an anemometer worked during the first 20 s, badly: a tenth of the force's size in noise. An unknown input
# with an entry in `noise` is measured; NaN is where it was not. In a study file the column's empty cells say that.

# %%
gauge = np.where(np.arange(300) < 100, forces + 0.1 * random.normal(size=300), np.nan)
partly = ps.identify(
    mast,
    record.replace(inputs={}, outputs={"position": noisy, "force": gauge}),
    priors={"c": dist.LogNormal(np.log(0.2), 1), "k": dist.LogNormal(np.log(4), 1)},
    noise={"position": 0.01, "force": 0.1},
    initial={"x": 0.0, "dx": 0.0},
    unknown={"force": ps.Matern(0.5, scale=dist.LogNormal(0, 1), length=dist.LogNormal(0, 1))},
    sampler=ps.Sampler(particles=256),
)
print(partly.table()[["mean", "sd", "q05", "q95", "unit"]].assign(truth=truth).round(3))
for name, inferred in (("never measured", found), ("measured at first", partly.inputs(draws=100))):
    sd = inferred.sd["force"]
    print(f"{name}: sd of the force {sd[:100].mean():.2f} before and {sd[100:].mean():.2f} after 20 s")
