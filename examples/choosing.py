"""Choose between models by their evidence.

Is the spring linear, hardening, or also asymmetric? Three models, one record, one number per model.
"""

# %% [markdown]
# ## Why not the fit?
#
# A model with more constants always fits better. The *evidence* is the probability density of the record under a model
# with its priors, before any constant is fitted: each sample is predicted from those before it, and the predictions are
# scored. A constant that does not help makes the predictions less precise and costs evidence. Differences of log
# evidence matter: 1 is negligible, 5 is strong (150 to 1), more than 10 is decisive.
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
# Common constants have the same priors in all models. A prior twice as wide costs log 2 = 0.7 per constant, so the
# priors of the remaining constants should be what you would have stated before seeing the data, not arbitrarily wide.

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
# The error comes from four independent samplers run in parallel (islands). A difference of less than several errors is
# not significant: use more particles. The linear model compensates for its misfit with a larger noise level.
#
# ## Where the evidence comes from
#
# The log evidence is a sum over samples, so one can see *when* a model falls behind: the cumulative difference to the
# cubic model. The linear model loses where the motion is large. The extra constant k2 costs a little at the beginning,
# until it has been learnt to be close to zero, and nothing afterwards.

# %%
figure, axis = plt.subplots(figsize=(8, 3.2), layout="constrained")
for name in ("linear", "quadratic and cubic"):
    axis.plot(time, np.cumsum(found[name].history.log_predictive - found["cubic"].history.log_predictive), label=name)
axis.axhline(0, color="0.6", lw=1)
axis.set_xlabel("time [s]")
axis.set_ylabel("log evidence\nminus that of cubic")
axis.legend(frameon=False)
figure.savefig(folder / "evidence.png", dpi=120)
plt.close(figure)
print(found["quadratic and cubic"].table()[["mean", "sd", "flags"]].round(3).to_string())

# %% [markdown]
# In a study file, several `[[model]]` entries make the same comparison without code. The best model of a list may still
# be wrong: inspect its residuals in the report before you trust its intervals.
