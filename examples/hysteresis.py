"""Hysteresis: a hidden force with memory.

A Bouc-Wen oscillator: in addition to spring and damper there is a hysteretic force z with its own equation. Only the
position is measured; z and its constants are to be identified.
"""

# %% [markdown]
# ## The system
#
# $$m\ddot x + c\dot x + k x + z = u, \qquad
# \dot z = \alpha\dot x - \beta\gamma\,|\dot x|\,z - \beta\delta\,\dot x\,|z|$$
#
# In the textbook form β, γ and δ appear only in the products βγ and βδ. A record identifies the products but never the
# three constants: their posterior would be a ridge, limited only by the prior. So the model is written with `bg` and
# `bd`.

# %%
import sys
import tempfile
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from scipy.integrate import solve_ivp

import probsysid as ps
from probsysid import dist

folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="probsysid-"))
folder.mkdir(parents=True, exist_ok=True)


def dynamics(s, u, p):
    memory = p.alpha * s.dx - p.bg * jnp.abs(s.dx) * s.z - p.bd * s.dx * jnp.abs(s.z)
    return {"x": (u.force - p.c * s.dx - p.k * s.x - s.z) / p.m, "z": memory}


bouc_wen = ps.Model(
    coordinates={"x": 2, "z": 1},  # x has a second-order equation, z a first-order one
    dynamics=dynamics,
    outputs=lambda s, u, p: {"position": s.x, "z": s.z},  # z is not measured, but will be simulated
    units={"c": "N s/m", "k": "N/m", "alpha": "N/m", "bg": "1/m", "bd": "1/m", "z": "N"},
)

# %% [markdown]
# A record of 250 samples: two sines, simulated with known constants by SciPy, with noise of 10 mm on a motion of about
# one metre. The mass is known here: it is given as a number in the priors, not as a distribution.

# %%
truth = {"m": 1.0, "c": 0.2, "k": 1.0, "alpha": 2.0, "bg": 1.5, "bd": -0.5}
time = 0.1 * np.arange(250)
force = 1.5 * np.sin(0.9 * time) + np.sin(2.3 * time + 1)


def motion(t, s):
    (x, dx, z), p = s, truth
    u = np.interp(t, time, force)
    memory = p["alpha"] * dx - p["bg"] * abs(dx) * z - p["bd"] * dx * abs(z)
    return dx, (u - p["c"] * dx - p["k"] * x - z) / p["m"], memory


exact = solve_ivp(motion, (0, time[-1]), (0, 0, 0), t_eval=time, max_step=0.01).y
noisy = exact[0] + 0.01 * np.random.default_rng(0).standard_normal(len(time))
record = ps.Record(
    inputs={"force": force},
    outputs={"position": noisy},
    dt=0.1,
    units={
        "force": "N",
        "position": "m",
    },
)

priors = {
    "m": 1.0,
    "c": dist.LogNormal(np.log(0.1), 1),
    "k": dist.LogNormal(np.log(1.5), 0.7),
    "alpha": dist.LogNormal(np.log(1.5), 0.7),
    "bg": dist.LogNormal(0, 1),
    "bd": dist.Normal(0, 1),
}
posterior = ps.identify(
    bouc_wen,
    record,
    priors=priors,
    initial={"x": 0.0, "dx": 0.0, "z": 0.0},  # it starts at rest
    solver=ps.Solver(smoothness={"x": 3, "z": 2}),  # see below
    sampler=ps.Sampler(particles=256),
)
table = posterior.table()
table.insert(0, "truth", table.index.map({**truth, "noise.position": 0.01}))
print(table[["truth", "mean", "sd", "q05", "q95", "unit", "flags"]].to_string(float_format="{:.4g}".format))
print(posterior.verdict)

# %% [markdown]
# `smoothness` is the number of derivatives that the solver carries. Hysteresis has kinks, `abs` of the velocity at
# every reversal, where higher derivatives do not exist: carrying many costs time and does not help. The default is the
# order of the equation plus two.
#
# ## The hysteresis loop
#
# Draws from the posterior, each simulated with its own constants, against the truth. The hysteretic force was never
# measured; its loop is identified nevertheless, to within the width of a line.

# %%
from probsysid.report.figures import plot_loop

simulated = posterior.simulate(record, particles=20).outputs
shown = slice(150, 250)
figure = plot_loop(
    simulated["position"][:, shown],
    simulated["z"][:, shown],
    "position [m]",
    "hysteretic force z [N]",
    truth=(exact[0, shown], exact[2, shown]),
)
figure.savefig(folder / "loop.png", dpi=120)
