"""Read the diagnostics: what a run reports about itself.

Every run produces a posterior. Whether to trust it is a separate question, most of which the run answers itself: by
flags, a verdict on the integration, shares of the uncertainty, effective sample size and acceptance rate. Here are one
good run and four that fail in different ways, each detected by a different diagnostic.
"""

# %% [markdown]
# ## One good run
#
# A mass on a spring with a known force; 150 samples, 25 per period.

# %%
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.integrate import solve_ivp

import probsysid as ps
from probsysid import dist

folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="probsysid-"))
folder.mkdir(parents=True, exist_ok=True)
truth = {"m": 1.0, "c": 0.15, "k": 1.0}
time = 0.25 * np.arange(150)


def push(t):
    return np.sin(0.6 * t) + np.sin(1.7 * t + 1)


def measure(force, start=(0.0, 0.0), dry=0.0, noise=0.05, every=1):
    """Position of the mass at the sample times, with noise; `dry` is a friction that the model does not include."""

    def motion(t, s):
        friction = truth["c"] * s[1] + dry * np.tanh(s[1] / 0.01)
        return s[1], (force(t) - friction - truth["k"] * s[0]) / truth["m"]

    exact = solve_ivp(motion, (0, time[-1]), start, t_eval=time, rtol=1e-8, atol=1e-8).y[0]
    noisy = exact + noise * np.random.default_rng(0).standard_normal(len(time))
    return ps.Record(inputs={"force": force}, outputs={"position": noisy[::every]}, dt=0.25 * every)


oscillator = ps.Model(
    coordinates={"x": 2},
    dynamics=lambda s, u, p: {"x": (u.force - p.c * s.dx - p.k * s.x) / p.m},
    outputs=lambda s, u, p: {"position": s.x},
)


def identify(record, start=(0.0, 0.0), **options):
    return ps.identify(
        oscillator,
        record,
        priors={"m": dist.LogNormal(0, 0.5), "c": dist.LogNormal(-2, 1), "k": dist.LogNormal(0, 0.5)},
        initial={"x": dist.Normal(start[0], 0.1), "dx": dist.Normal(start[1], 0.1)},
        sampler=ps.Sampler(particles=512),
        **options,
    )


good = identify(measure(push))
print(good.table()[["mean", "sd", "from noise", "from integration", "flags"]].round(4).to_string())
print(good.verdict)
print(good)

# %% [markdown]
# What to check, in this order:
#
# - **The verdict**: would a finer integration change the result? *Negligible* means that no mean moves by more than a
#   quarter of its sd.
# - **`from noise`, `from integration`**: shares of each variance. The share of the integration is negligible here.
# - **Flags**: none, so every constant was learnt from the data and can be distinguished from the others.
# - **Effective sample size**: 512 weighted particles are worth that many equally weighted ones. The Monte Carlo error
#   of a mean is about its sd divided by the root of this number. If it is far below half of the particles, independent
#   parts of the run disagree: use more particles.
# - **The error of the log evidence**: here far below 1, so differences of a few units between models would be
#   significant.
#
# During the run, the effective sample size falls with every informative sample; at half of the particles they are
# resampled and moved. `acceptance` is the share of accepted proposals: above 0.3 is comfortable; below 0.1 the moves
# hardly mix and more particles are needed. The report warns about it.

# %%
moves = good.history.table()
print(moves[["sample", "moves", "acceptance", "unique"]].tail(4).round(2).to_string(index=False))
figure, (top, bottom) = plt.subplots(2, 1, figsize=(8, 3.6), sharex=True, layout="constrained")
top.plot(good.history.ess.sum(axis=1) / 512)
top.axhline(0.5, color="C3", ls="--", lw=1)
top.set_ylabel("effective share")
bottom.plot(moves["sample"], moves["acceptance"], "o", ms=4)
bottom.set(ylabel="acceptance", xlabel="sample", ylim=(0, 1))
figure.savefig(folder / "sampling.png", dpi=120)
plt.close(figure)

# %% [markdown]
# ## Not identifiable: `tied to`
#
# Let the mass oscillate freely, without a force. Then only c/m and k/m matter, and no record, however long, identifies
# more.

# %%
start = (1.5, 0.0)
free = identify(measure(lambda t: 0.0 * t, start), start)
print(free.table()[["mean", "sd", "flags"]].round(3).to_string())
print(*free.identifiability.sentences, sep="\n")

# %% [markdown]
# Each of the three is known only to within a third, by its prior; two ratios are known well, and `identifiability`
# finds them: along one direction the posterior is as wide as the prior, across it far narrower. Write the model in
# terms of the ratios, fix one of the three, or measure a force. The formulas are products of powers, or sums where
# these fit better. A flag such as `tied to k (0.98)` is a correlation, of values or of logarithms, without a formula.
#
# ## Too little data: `at prior`
#
# The first four samples, an eighth of a period.

# %%
short = identify(measure(push)[:4])
print(short.table()[["mean", "sd", "prior", "flags"]].round(3).to_string())

# %% [markdown]
# A constant flagged `at prior` has the distribution that you put in, in location and in width: its interval is not a
# result. `at bound` would mean that a constant accumulates at an end of its range, such as a damping at zero.
#
# ## Integration too coarse
#
# By default, the run takes as many steps as the data require. Forced to a single step per sample on every third sample,
# eight per period, with little noise, it reports an integration error:

# %%
coarse = identify(measure(push, noise=0.002, every=3), solver=ps.Solver(substeps=1))
print(coarse.table()[["mean", "sd"]].round(4).to_string())
print(coarse.uncertainty().round(2).to_string())

# %% [markdown]
# Most of the variance now comes from the integration: the intervals are wider than the noise alone would make them.
# This is the point of a probabilistic solver: a coarse step shows. It is an estimate, not a guarantee: compare m with
# its true value 1. So leave `substeps` automatic and check the verdict. The run also warns here: the residuals of a
# coarse integration are not white.
#
# ## Wrong model
#
# None of the diagnostics above detects an effect that the equation leaves out. With dry friction in the system and none
# in the model, there are no flags and the verdict is favourable. Only the one-step prediction errors reveal it:
# `doubts` describes what they show, and the run issues the same as a warning.

# %%
wrong = identify(measure(push, dry=0.3))
print(wrong.table()[["mean", "sd", "flags"]].round(3).to_string())
print(wrong.verdict)
print(*wrong.doubts, sep="\n")

# %% [markdown]
# But the noise was estimated at twice the 0.05 of the sensor, and c at three times its value: the model attributes the
# dry friction to the viscous one. A noise level above that of the data sheet indicates that the model is missing
# something. The report shows it more clearly: residuals that are not white. Compare with another model by evidence
# ([choosing](choosing.md)), or account for it with `process_noise`, an additional random force whose size is inferred.
