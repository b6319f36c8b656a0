"""Online: update the posterior with every sample.

A sensor delivers one sample after the other, and estimates are needed at any time, not only at the end. `Identifier` is
the same method as `identify`, fed sample by sample.
"""

# %% [markdown]
# ## A stream
#
# A first-order lag, such as a motor's speed: $\dot v = (g u - v)/\tau$, with a gain g and a time constant τ, driven by
# a square wave that is held between samples. The exact solution is known, so the stream is easy to generate.

# %%
import sys
import tempfile
import time as clock
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import probsysid as ps
from probsysid import dist

folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="probsysid-"))
folder.mkdir(parents=True, exist_ok=True)
truth = {"gain": 2.0, "tau": 0.4}
random = np.random.default_rng(0)


def stream(samples, dt=0.05):
    speed = 0.0
    for k in range(samples):
        volts = 1.0 if k // 25 % 2 == 0 else -0.5
        yield {"volts": volts}, {"speed": speed + 0.05 * random.standard_normal()}
        speed += (truth["gain"] * volts - speed) * (1 - np.exp(-dt / truth["tau"]))


# %% [markdown]
# ## Identify as the data arrive
#
# Noise and initial state must be given as numbers or priors: there are no data yet to guess them from. `intersample` is
# `zoh` here (zero-order hold); band-limited interpolation would require future samples.

# %%
lag = ps.Model(
    coordinates={"v": 1},
    dynamics=lambda s, u, p: {"v": (p.gain * u.volts - s.v) / p.tau},
    outputs=lambda s, u, p: {"speed": s.v},
)
online = ps.Identifier(
    lag,
    priors={"gain": dist.LogNormal(0, 1), "tau": dist.LogNormal(np.log(0.2), 1)},
    noise={"speed": dist.LogNormal(np.log(0.1), 1)},
    initial={"v": 0.0},
    dt=0.05,
    intersample="zoh",
    sampler=ps.Sampler(particles=512),
)
taken, history, seconds = [], [], []
for inputs, outputs in stream(300):
    began = clock.perf_counter()
    online.update(inputs, outputs)
    seconds.append(clock.perf_counter() - began)
    taken.append((inputs["volts"], outputs["speed"]))
    if online.samples % 5 == 0:
        now = online.posterior
        history.append([online.samples, *(now.quantile(n, [0.05, 0.5, 0.95]) for n in truth)])
print(online.posterior.table()[["mean", "sd", "q05", "q95"]].round(4).to_string())
late = np.array(seconds[100:])
print(f"update: median {1e3 * np.median(late):.0f} ms, slowest {1e3 * late.max():.0f} ms")

# %% [markdown]
# Most updates take one filter step per particle. Occasionally too few particles carry most of the weight, and the
# sampler rejuvenates them: this sweeps over all samples so far and takes longer, increasingly so with the length of the
# stream, though ever less often. A program that must not block calls `submit`, which returns at once and leaves the
# work to a thread ([streams that must not block](../streams.md)); several samples can be given at once as arrays. The
# first updates also compile the model.

# %%
samples = np.array([row[0] for row in history])
figure, axes = plt.subplots(1, 2, figsize=(9, 3), layout="constrained")
for j, (axis, (name, value)) in enumerate(zip(axes, truth.items(), strict=True)):
    low, middle, high = np.array([row[1 + j] for row in history]).T
    axis.fill_between(samples, low, high, alpha=0.3, lw=0, label="90 % interval")
    axis.plot(samples, middle, label="median")
    axis.axhline(value, color="C3", lw=1, ls="--", label="truth")
    axis.set_xlabel("samples")
    axis.set_title(name)
    axis.set_ylim(0.85 * value, 1.15 * value)
axes[0].legend(frameon=False)
figure.savefig(folder / "online.png", dpi=120)
plt.close(figure)

# %% [markdown]
# At the end of the first step of the square wave, sample 25, both constants are known to within a tenth; the rest of
# the record narrows the intervals at a decreasing rate.
#
# ## Save and resume
#
# The whole state is saved in a file. Loaded again, possibly in another process, it continues with the same numbers. The
# file contains the model as Python code: load only files that you trust.

# %%
online.save(folder / "state.npz")
again = ps.Identifier.load(folder / "state.npz")
print(again.samples, "samples;", again.posterior)

# %% [markdown]
# ## The same as in batch
#
# Processing sample by sample loses nothing: a batch run over the same samples with the same seed makes the same
# decisions.

# %%
volts, speed = np.array(taken).T
record = ps.Record(inputs={"volts": volts}, outputs={"speed": speed}, dt=0.05, intersample="zoh")
batch = ps.identify(
    lag,
    record,
    priors={"gain": dist.LogNormal(0, 1), "tau": dist.LogNormal(np.log(0.2), 1)},
    noise={"speed": dist.LogNormal(np.log(0.1), 1)},
    initial={"v": 0.0},
    sampler=ps.Sampler(particles=512),
)
for name in truth:
    print(f"{name}: online {online.posterior.mean(name):.10f}, batch {batch.mean(name):.10f}")

# %% [markdown]
# The method assumes that constants are constant: for one that drifts, the posterior becomes ever more certain of an
# average. In that case start a new `Identifier` from time to time, or add a state for it to the model.
