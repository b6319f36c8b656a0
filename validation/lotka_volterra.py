"""posteriordb's Lotka-Volterra model of lynx and hare (hudson_lynx_hare-lotka_volterra) against its reference draws.

The reference is stored beside the benchmark data: PROBSYSID_DATA/../reference/lotka_volterra.
"""

import json
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

import probsysid as ps
from probsysid import dist

LOG_EVIDENCE = -146.684
"""Log evidence of the counts, not of their logarithms; by importance sampling with a fine Runge-Kutta solver,
+- 0.004."""

NAMES = {
    "theta1": "theta[1]",
    "theta2": "theta[2]",
    "theta3": "theta[3]",
    "theta4": "theta[4]",
    "initial.hare": "z_init[1]",
    "initial.lynx": "z_init[2]",
    "noise.log_hare": "sigma[1]",
    "noise.log_lynx": "sigma[2]",
}
"""Our names -> the reference's."""

STEPS = 10
"""Steps per year, as samples without outputs, which keeps the compiled program small.  At the reference draws the log
likelihood is then 0.0013 +- 0.0013 below that of 40 steps with smoothness 4."""

SOLVER = ps.Solver(smoothness=2, substeps=1, linearisation="ekf1", diffusion="quasi-mle")

MODEL = ps.Model(
    coordinates={"hare": 1, "lynx": 1},
    dynamics=lambda s, u, p: {
        "hare": (p.theta1 - p.theta2 * s.lynx) * s.hare,
        "lynx": (-p.theta3 + p.theta4 * s.hare) * s.lynx,
    },
    outputs=lambda s, u, p: {"log_hare": jnp.log(s.hare), "log_lynx": jnp.log(s.lynx)},
    name="Lotka-Volterra model",
)

PRIORS = {
    "theta1": dist.TruncatedNormal(1.0, 0.5, low=0.0),
    "theta2": dist.TruncatedNormal(0.05, 0.05, low=0.0),
    "theta3": dist.TruncatedNormal(1.0, 0.5, low=0.0),
    "theta4": dist.TruncatedNormal(0.05, 0.05, low=0.0),
}
NOISE = {"log_hare": dist.LogNormal(-1.0, 1.0), "log_lynx": dist.LogNormal(-1.0, 1.0)}
INITIAL = {"hare": dist.LogNormal(np.log(10.0), 1.0), "lynx": dist.LogNormal(np.log(10.0), 1.0)}


@dataclass(frozen=True)
class Reference:
    """The counts of 21 years, and draws from the exact posterior under our names."""

    counts: np.ndarray
    draws: dict[str, np.ndarray]

    @classmethod
    def read(cls) -> "Reference | None":
        """Read the files; None if they are missing."""
        data = os.environ.get("PROBSYSID_DATA")
        folder = Path(data).parent / "reference" / "lotka_volterra" if data else None
        if folder is None or not folder.is_dir():
            return None
        given = json.loads((folder / "hudson_lynx_hare.json").read_text())
        with zipfile.ZipFile(folder / "hudson_lynx_hare-lotka_volterra.json.zip") as archive:
            chains = json.loads(archive.read(archive.namelist()[0]))
        draws = {ours: np.concatenate([chain[theirs] for chain in chains]) for ours, theirs in NAMES.items()}
        return cls(np.vstack([given["y_init"], given["y"]]).astype(float), draws)

    @property
    def record(self) -> ps.Record:
        """Logarithms of the counts once per year, and missing values in between."""
        values = np.full((STEPS * (len(self.counts) - 1) + 1, 2), np.nan)
        values[::STEPS] = np.log(self.counts)
        return ps.Record(outputs={"log_hare": values[:, 0], "log_lynx": values[:, 1]}, dt=1 / STEPS)

    def compare(self, posterior: ps.Posterior) -> dict[str, Any]:
        """Differences of means in sd, ratios of sd, and the evidence of the counts, with the logarithm's Jacobian."""
        return {
            "mean": {n: (posterior.mean(n) - d.mean()) / d.std() for n, d in self.draws.items()},
            "sd": {n: posterior.sd(n) / d.std() for n, d in self.draws.items()},
            "log evidence": posterior.log_evidence - np.log(self.counts).sum(),
            "log evidence error": posterior.log_evidence_error,
            "ess": posterior.ess,
            "sweeps": posterior.settings.sweeps,
            "seconds": posterior.settings.seconds,
            "lost": posterior.settings.lost,
        }


def identify(reference: Reference, sampler: ps.Sampler, seed: int = 0) -> ps.Posterior:
    return ps.identify(MODEL, reference.record, PRIORS, NOISE, INITIAL, solver=SOLVER, sampler=sampler, seed=seed)


def run(folder: Path) -> dict[str, Any]:
    """Compare a run of the default sampler with 4096 particles."""
    reference = Reference.read()
    if reference is None:
        return {"missing": "the reference draws are not beside PROBSYSID_DATA"}
    return reference.compare(identify(reference, ps.Sampler(particles=4096)))
