"""Identify a Duffing oscillator from a csv file.

A mass on a hardening spring, excited by a known force. A data logger wrote time, force and position to a csv file;
mass, damping and both stiffnesses are to be identified, with credible intervals.
"""

# %% [markdown]
# ## The measurement
#
# In place of a measurement, the record is simulated (by SciPy's integrator, at tolerances where its own error is
# negligible) and noise of 0.5 mm is added. From here on, only the csv file is used.

# %%
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.integrate import solve_ivp

folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="probsysid-"))
folder.mkdir(parents=True, exist_ok=True)
truth = {"m": 1.2, "c": 0.8, "k": 90.0, "k3": 4e5}

random = np.random.default_rng(0)
lines, phases = np.linspace(1.0, 15.0, 30), random.uniform(0, 2 * np.pi, 30)  # a multisine in rad/s


def force(t):
    return 0.25 * np.cos(np.multiply.outer(t, lines) + phases).sum(axis=-1)


def motion(t, s):
    return s[1], (force(t) - truth["c"] * s[1] - truth["k"] * s[0] - truth["k3"] * s[0] ** 3) / truth["m"]


time = 0.02 * np.arange(600)
position = solve_ivp(motion, (0, time[-1]), (0, 0), t_eval=time, rtol=1e-9, atol=1e-12).y[0]
measured = position + 5e-4 * random.standard_normal(len(time))
table = pd.DataFrame({"t [s]": time, "F [N]": force(time), "x [mm]": 1e3 * measured})
table.to_csv(folder / "measurement.csv", index=False, float_format="%.5f")
print(*(folder / "measurement.csv").read_text().splitlines()[:4], sep="\n")

# %% [markdown]
# ## Read the data
#
# Columns are given by name. `scale` converts millimetres to metres, so that every constant comes out in SI units. The
# force is smooth between samples, with no content above half the sampling rate: `bandlimited`. (A force held by a
# converter is `zoh`; linear interpolation between samples, `linear`, is the default.) This choice matters: on the
# Silverbox benchmark a linear force makes the prediction a third worse than a band-limited one, a held force ten times.

# %%
import probsysid as ps
from probsysid import dist
from probsysid.data.readers import Channel, read_record

record, remarks = read_record(
    folder / "measurement.csv",
    time="t [s]",
    inputs={"force": Channel("F [N]", unit="N", intersample="bandlimited")},
    outputs={"position": Channel("x [mm]", unit="m", scale=1e-3)},
)
train = record[:300]
print(record, *remarks, sep="\n")

# %% [markdown]
# ## Model and priors
#
# The equation gives the highest derivative. A prior states what you know before seeing the data: `LogNormal(log(g), s)`
# describes a positive constant near the guess g, within about a factor of exp(s). Here the guesses are off by up to a
# factor of two, and the widths allow for that. The noise level is not given, so it is inferred.

# %%
duffing = ps.Model(
    coordinates={"x": 2},
    dynamics=lambda s, u, p: {"x": (u.force - p.c * s.dx - p.k * s.x - p.k3 * s.x**3) / p.m},
    outputs=lambda s, u, p: {"position": s.x},
    units={"m": "kg", "c": "N s/m", "k": "N/m", "k3": "N/m^3"},
    name="Duffing oscillator",
)
posterior = ps.identify(
    duffing,
    train,
    priors={
        "m": dist.LogNormal(np.log(1.0), 0.5),
        "c": dist.LogNormal(np.log(0.5), 1.0),
        "k": dist.LogNormal(np.log(50.0), 1.0),
        "k3": dist.LogNormal(np.log(2e5), 1.0),
    },
    initial={"x": dist.Normal(0, 0.005), "dx": dist.Normal(0, 0.05)},
)
print(posterior.table()[["mean", "sd", "q05", "q95", "unit", "flags"]].to_string(float_format="{:.4g}".format))
print(posterior.verdict)

# %% [markdown]
# With probability 90 % a constant lies between `q05` and `q95`, if the equation is right. The last sentence is about
# the integration: how far the result would move with twice the steps. The number of steps is chosen automatically
# during the run so that this effect is small.
#
# ## Does it predict?
#
# The second half of the record was not used. Every particle is simulated in free run, that is, from rest with the force
# alone, and scored on the second half.

# %%
from probsysid.report.figures import plot_fit, plot_marginals

simulation = posterior.simulate(record, initial={"x": 0.0, "dx": 0.0}, skip=300)
print(f"rmse on the second half: {1e3 * simulation.rmse().mean:.3f} mm; the noise was 0.5 mm")
plot_fit(simulation, folder / "fit.png", zoom=slice(300, 600))
plot_marginals(posterior, folder / "marginals.png", truth={**truth, "noise.position": 5e-4})

# %% [markdown]
# The error is slightly above the noise: every set of constants that is consistent with the data drifts from the truth
# during twelve seconds of free run, and this is the mean error over all of them. Red lines are the true values. They
# lie within the posteriors, but not at their centres, as expected: of ten true values, one lies outside its 90 %
# interval on average.
#
# ## Save it
#
# `ps.Posterior.load` reads the file. `posterior.report("report.html")` would write a self-contained report; it takes
# half a minute more, because it includes the smoothed hidden states.

# %%
posterior.save(folder / "posterior.nc")
print(ps.Posterior.load(folder / "posterior.nc"))
