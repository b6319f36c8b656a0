"""Your own equation: a pendulum with quadratic drag.

The system is not in the catalogue. There are two ways to identify its constants: a study file with the command line,
without any code, or Python.
"""

# %% [markdown]
# ## The record
#
# The swing of a pendulum with a paddle decays in air, and the angle is logged, in degrees and milliseconds, as data
# loggers do. There is no input. The drag of the paddle is quadratic in the speed, the friction of the bearing linear:
#
# $$\ddot\theta = -\omega^2\sin\theta - 2 d\,\dot\theta - b\,|\dot\theta|\,\dot\theta$$

# %%
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.integrate import solve_ivp

folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="probsysid-"))
folder.mkdir(parents=True, exist_ok=True)
truth = {"omega": 4.5, "d": 0.03, "b": 0.12}


def motion(t, s):
    return s[1], -(4.5**2) * np.sin(s[0]) - 0.06 * s[1] - 0.12 * abs(s[1]) * s[1]


time = 0.04 * np.arange(300)
angle = solve_ivp(motion, (0, time[-1]), (1.2, 0), t_eval=time, rtol=1e-9, atol=1e-9).y[0]
noisy = np.degrees(angle) + 0.3 * np.random.default_rng(0).standard_normal(len(time))
table = pd.DataFrame({"time [ms]": 1e3 * time, "angle [deg]": noisy})
table.to_csv(folder / "swing.csv", index=False, float_format="%.4g")


def shell(command):
    """Run a command in the folder and print its output."""
    print(f"$ {command}")
    command = command.replace("probsysid", f"{sys.executable} -m probsysid", 1)
    print(subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True, check=True).stdout)


# %% [markdown]
# ## Without code
#
# `new` reads the data file and writes a study to start from.

# %%
shell("probsysid new swing --data swing.csv")
print((folder / "swing.toml").read_text())

# %% [markdown]
# There is no input column, so the initial guess is a free, linear oscillation with the frequency found in the record.
# Our variable is an angle and obeys a different equation. After editing, the study reads:

# %%
study = """
title = "Pendulum with a paddle"

[data]
file = "swing.csv"
time = "time [ms]"
time_unit = "ms"
train = { samples = [0, 200] }
test = { samples = [200, "end"] }

[data.outputs]
angle = { column = "angle [deg]", unit = "rad", scale = 0.0174533 }

[model.coordinates]
theta = 2

[model.equations]
theta = "-omega**2*sin(theta) - 2*d*dtheta - b*abs(dtheta)*dtheta"

[model.outputs]
angle = "theta"

[parameters]
omega = { prior = "LogNormal(log(4), 0.3)", unit = "rad/s", description = "small swings" }
d = { prior = "LogNormal(log(0.05), 1)", unit = "1/s", description = "bearing" }
b = { prior = "LogNormal(log(0.05), 1)", unit = "1", description = "paddle" }

[initial]
theta = "Normal(1.2, 0.1)"
dtheta = "Normal(0, 0.3)"

[sampler]
particles = 256
"""
(folder / "swing.toml").write_text(study)
shell("probsysid check swing.toml")

# %% [markdown]
# `check` simulates the model with constants drawn from the priors (blue) and plots the data over it (black). Data
# outside the prior predictions would indicate a wrong unit, column or prior, which is better found before a long run.
# Here they agree.

# %%
shell("probsysid fit swing.toml --quiet")
print(pd.read_csv(folder / "swing-results" / "summary.csv", index_col=0).iloc[:, :4].round(4).to_string())
print(sorted(path.name for path in (folder / "swing-results").iterdir()))

# %% [markdown]
# `report.html` is a self-contained page to share: the typeset equation, the fit on training and test ranges, residuals,
# and the course of the run.
#
# ## In Python
#
# The same in Python, for instance in a notebook. The equation is a function that returns the highest derivative; use
# `jax.numpy` for functions such as `sin`.

# %%
import jax.numpy as jnp

import probsysid as ps
from probsysid import dist
from probsysid.data.readers import Channel, read_record

pendulum = ps.Model(
    coordinates={"theta": 2},
    dynamics=lambda s, u, p: {
        "theta": -(p.omega**2) * jnp.sin(s.theta) - 2 * p.d * s.dtheta - p.b * jnp.abs(s.dtheta) * s.dtheta
    },
    outputs=lambda s, u, p: {"angle": s.theta},
)
record, _ = read_record(
    folder / "swing.csv",
    time="time [ms]",
    time_unit="ms",
    outputs={"angle": Channel("angle [deg]", unit="rad", scale=np.pi / 180)},
)
posterior = ps.identify(
    pendulum,
    record[:200],
    priors={
        "omega": dist.LogNormal(np.log(4), 0.3),
        "d": dist.LogNormal(np.log(0.05), 1),
        "b": dist.LogNormal(np.log(0.05), 1),
    },
    initial={"theta": dist.Normal(1.2, 0.1), "dtheta": dist.Normal(0, 0.3)},
    sampler=ps.Sampler(particles=256),
)
print(posterior.table()[["mean", "sd", "q05", "q95", "flags"]].round(4).to_string())
print("truth:", truth)

# %% [markdown]
# Both ways agree in every significant digit: a study file is translated into these calls.
