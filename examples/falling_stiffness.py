"""A stiffness that falls: a parameter that changes while data are taken.

An oscillator loses a tenth of its stiffness half-way through a test. When, and by how much?
"""

# %% [markdown]
# ## The record
#
# $\ddot x = u - c\dot x - k(t)x$ with a measured force $u$. The stiffness falls by 10 % between 40 and 44 s.

# %%
import sys
import tempfile
from pathlib import Path

import numpy as np

folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="probsysid-"))
folder.mkdir(parents=True, exist_ok=True)

random, dt, fine = np.random.default_rng(2), 0.2, 100
time = dt * np.arange(400)
frequencies, phases = np.array([0.11, 0.19, 0.27, 0.34, 0.41]), random.uniform(0, 2 * np.pi, 5)


def force(t):
    return np.sum(np.sin(2 * np.pi * np.outer(t, frequencies) + phases), axis=1)


def stiffness(t):
    return 4.0 * (1 - 0.1 * np.clip((t - 40) / 4, 0, 1))


x, v, positions = 0.0, 0.0, []
for begin in time:
    positions.append(x)
    for t, u in zip(begin + dt / fine * np.arange(fine), force(begin + dt / fine * np.arange(fine)), strict=True):
        v += dt / fine * (u - 0.2 * v - stiffness(t) * x)
        x += dt / fine * v
noisy = np.array(positions) + 0.01 * random.normal(size=len(time))

# %% [markdown]
# ## Identify
#
# The model has a constant `k`. `drifts` lets it wander: a random walk of its logarithm, since it is positive, whose
# rate is inferred. A rate of 0.01 is 1 % after one second and 10 % after a hundred. What the table lists as `k` is the
# value at the first sample.

# %%
import probsysid as ps
from probsysid import dist

oscillator = ps.Model(
    coordinates={"x": 2},
    dynamics=lambda s, u, p: {"x": u.force - p.c * s.dx - p.k * s.x},
    outputs=lambda s, u, p: {"position": s.x},
)
record = ps.Record({"force": force(time)}, {"position": noisy}, dt=dt, intersample="bandlimited")
posterior = ps.identify(
    oscillator,
    record,
    priors={"c": dist.LogNormal(np.log(0.2), 1), "k": dist.LogNormal(np.log(4), 0.5)},
    noise={"position": 0.01},
    initial={"x": 0.0, "dx": 0.0},
    drifts={"k": ps.RandomWalk(rate=dist.HalfNormal(0.05))},
    sampler=ps.Sampler(particles=256),
)
print(posterior.table()[["mean", "sd", "q05", "q95"]].round(4))

# %% [markdown]
# ## The history of the stiffness

# %%
found = posterior.inputs(draws=100)
found.plot(folder / "stiffness.png")
for begin, end in ((0, 200), (220, 400)):
    print(f"{time[begin]:3.0f} to {time[end - 1]:3.0f} s: {found.mean['k'][begin:end].mean():.2f}")
print("\n".join(found.sentences))
low, high = found.band("k")
inside = (low <= stiffness(time)) & (stiffness(time) <= high)
print(f"within the 90 % band: {100 * np.mean(inside):.0f} % of the samples")
