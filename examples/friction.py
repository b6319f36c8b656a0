"""Friction: a sled that slides and sticks.

A mass on a guide, driven by a force, with viscous and dry friction; only its position is measured. What is the friction
curve, and how well is it known?
"""

# %% [markdown]
# ## The record
#
# Dry friction is discontinuous: $m\ddot x = u - F_v\dot x - F_c\,\mathrm{sign}\,\dot x$. Discontinuities are difficult
# for any integrator. The record is simulated with short steps that treat them explicitly, so that the data are
# accurate: the mass stops where the velocity changes its sign, and it moves from rest only when the force exceeds the
# friction.

# %%
import sys
import tempfile
from pathlib import Path

import numpy as np

folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="probsysid-"))
folder.mkdir(parents=True, exist_ok=True)
truth = {"m": 2.0, "F_v": 3.0, "F_c": 1.5}

time = 0.01 * np.arange(400)
force = 6 * np.sin(5 * time) + 4 * np.sin(11.7 * time + 0.5)
fine = 50  # steps per sample for the simulation of the truth
x, v, positions = 0.0, 0.0, []
for t, u in zip(time, force, strict=True):
    positions.append(x)
    following = 6 * np.sin(5 * (t + 0.01)) + 4 * np.sin(11.7 * (t + 0.01) + 0.5)
    for step in range(fine):  # short Euler steps in velocity, with stops: the force is linear between samples
        drive = u + (following - u) * (step + 0.5) / fine
        if v == 0.0 and abs(drive) <= truth["F_c"]:
            continue  # it sticks
        direction = np.sign(v) or np.sign(drive)
        new = v + 0.01 / fine * (drive - truth["F_v"] * v - truth["F_c"] * direction) / truth["m"]
        new = 0.0 if new * direction < 0 else new  # it stops
        x, v = x + 0.01 / fine * (v + new) / 2, new
noisy = np.array(positions) + 1e-3 * np.random.default_rng(0).standard_normal(len(time))

# %% [markdown]
# ## Identify
#
# `jnp.sign` in the equation is all that is needed. The solver does not fail at a discontinuity but loses accuracy,
# which its error estimate reflects: more steps are taken until the posterior no longer changes. A smooth prior with
# many derivatives does not help here, hence `smoothness=3`.

# %%
import jax.numpy as jnp

import probsysid as ps
from probsysid import dist

sled = ps.Model(
    coordinates={"x": 2},
    dynamics=lambda s, u, p: {"x": (u.force - p.F_v * s.dx - p.F_c * jnp.sign(s.dx)) / p.m},
    outputs=lambda s, u, p: {"position": s.x},
    units={"m": "kg", "F_v": "N s/m", "F_c": "N"},
)
record = ps.Record(inputs={"force": force}, outputs={"position": noisy}, dt=0.01, units={"force": "N", "position": "m"})
posterior = ps.identify(
    sled,
    record,
    priors={
        "m": dist.LogNormal(np.log(1.5), 0.7),
        "F_v": dist.LogNormal(np.log(2.0), 1),
        "F_c": dist.LogNormal(np.log(1.0), 1),
    },
    initial={"x": 0.0, "dx": 0.0},
    solver=ps.Solver(smoothness=3),
    sampler=ps.Sampler(particles=256),
)
table = posterior.table()
table.insert(0, "truth", table.index.map({**truth, "noise.position": 1e-3}))
columns = ["truth", "mean", "sd", "q05", "q95", "from integration", "unit", "flags"]
print(table[columns].to_string(float_format="{:.4g}".format))
print(posterior.verdict)

# %% [markdown]
# `from integration` is the share of each variance that a finer integration would remove. With discontinuities it is not
# negligible: the intervals are wider than noise alone would make them, which keeps them calibrated. If the verdict says
# *not accurate enough*, the numbers above it cannot be trusted, however small their sd.
#
# ## The friction curve
#
# `tied to` means that, over the speeds of this record, more viscous friction compensates for less dry friction. The
# curve as a whole is therefore known better than either of its constants: here is the friction force against velocity
# for draws from the posterior, and on the right its uncertainty. It is smallest at the most frequent speeds of the
# record; beyond them the curve is an extrapolation of the model.

# %%
from probsysid.posterior.draws import draw_indices
from probsysid.report.figures import plot_characteristic

velocity = np.linspace(-1.0, 1.0, 400)
draws = draw_indices(posterior.weights, 200)
F_v, F_c = (posterior.values[name][draws, None] for name in ("F_v", "F_c"))
curves = F_v * velocity + F_c * np.sign(velocity)
exact = truth["F_v"] * velocity + truth["F_c"] * np.sign(velocity)
figure = plot_characteristic(
    velocity, curves, "velocity [m/s]", "friction force [N]", reference=exact, known_as="truth"
)
figure.savefig(folder / "friction.png", dpi=120)
seen = np.gradient(noisy, 0.01)
print(f"velocities in the record: up to about {np.quantile(np.abs(seen), 0.95):.2f} m/s")
