"""Choose between models by their evidence.

Is the spring linear, hardening, or lopsided as well? Three models, one record, one number for each.
"""

# %% [markdown]
# ## Why not the fit?
#
# A model with more constants always fits better. The *evidence* is the probability of the record under a model with its
# priors, before any constant was fitted: each sample is predicted from those before it, and the predictions are scored.
# A constant that does not help makes the predictions vaguer and costs evidence. Differences of log evidence count: 1 is
# nothing, 5 is strong (150 to 1), beyond 10 there is no discussion.
#
# ## The record
#
# The truth is a hardening spring, $\ddot x = u - c\dot x - kx - k_3x^3$, with a cubic part of a few percent of
# the force. There is no quadratic part.

# %%
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.integrate import solve_ivp

import probsysid as ps
from probsysid import dist

folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="probsysid-"))
folder.mkdir(parents=True, exist_ok=True)
time = 0.2 * np.arange(250)
force = 0.25 * np.sin(1.1 * time) + 0.2 * np.sin(0.7 * time + 1)


def motion(t, s):
    return s[1], np.interp(t, time, force) - 0.2 * s[1] - 1.0 * s[0] - 0.03 * s[0] ** 3


exact = solve_ivp(motion, (0, time[-1]), (0, 0), t_eval=time, max_step=0.05).y[0]
noisy = exact + 0.02 * np.random.default_rng(3).standard_normal(len(time))
record = ps.Record(inputs={"force": force}, outputs={"x": noisy}, dt=0.2)

# %% [markdown]
# ## Three models
#
# They share what they share, priors included: a prior twice as wide costs log 2 = 0.7 for each constant, so the priors
# of what differs should be what you would have said before the data, not something vague.

# %%
springs = {
    "linear": lambda x, p: p.k * x,
    "cubic": lambda x, p: p.k * x + p.k3 * x**3,
    "quadratic and cubic": lambda x, p: p.k * x + p.k2 * x**2 + p.k3 * x**3,
}
priors = {
    "c": dist.LogNormal(np.log(0.2), 0.7),
    "k": dist.LogNormal(np.log(1.0), 0.5),
    "k2": dist.Normal(0, 0.5),
    "k3": dist.Normal(0, 0.5),
}


def model(name):
    spring = springs[name]
    return ps.Model({"x": 2}, lambda s, u, p: {"x": u.force - p.c * s.dx - spring(s.x, p)}, name=name)


def identified(name):
    candidate = model(name)
    used = {key: priors[key] for key in candidate.parameter_names}
    return ps.identify(candidate, record, used, initial={"x": 0.0, "dx": 0.0}, sampler=ps.Sampler(particles=256))


found = {name: identified(name) for name in springs}
rows = {name: (p.log_evidence, p.log_evidence_error, p.mean("noise.x")) for name, p in found.items()}
table = pd.DataFrame.from_dict(rows, orient="index", columns=["log evidence", "error", "noise"])
table.insert(2, "below the best", table["log evidence"].max() - table["log evidence"])
print(table.round(3).to_string())

# %% [markdown]
# The error comes from four independent samplers side by side. A difference that is not several errors large says
# nothing: take more particles. The linear model makes up for its misfit with a larger noise.
#
# ## Where the evidence comes from
#
# The evidence is a sum over samples, so one can see *when* a model was found wanting: the difference to the cubic
# model, accumulated. The linear model loses where the motion is large. The extra constant k2 costs a little at the
# beginning, while it is being learnt to be useless, and nothing afterwards.

# %%
figure, axis = plt.subplots(figsize=(8, 3.2), layout="constrained")
for name in ("linear", "quadratic and cubic"):
    axis.plot(time, np.cumsum(found[name].log_predictive - found["cubic"].log_predictive), label=name)
axis.axhline(0, color="0.6", lw=1)
axis.set_xlabel("time [s]")
axis.set_ylabel("log evidence\nminus that of cubic")
axis.legend(frameon=False)
figure.savefig(folder / "evidence.png", dpi=120)
plt.close(figure)
print(found["quadratic and cubic"].table()[["mean", "sd", "flags"]].round(3).to_string())

# %% [markdown]
# In a study file, `[[model]]` written several times makes the same comparison without code. The best model of a list
# may still be wrong: look at its residuals in the report before you believe its intervals.
