"""posteriordb's one-compartment model (one_comp_mm_elim_abs-one_comp_mm_elim_abs) in its own lognormal form.

A dose D is absorbed at the rate k_a into a compartment of volume V and eliminated by Michaelis-Menten kinetics; the
concentration is measured with lognormal noise, 20 times, and is zero at first.  All priors are half-Cauchy.
"""

import numpy as np

import probsysid as ps
from probsysid import dist

DOSE, VOLUME, DT = 30.0, 2.0, 0.5
MEASURED = (
    "5.70812264865215 7.10126075072086 8.38520678426651 9.79008249883381 13.4390409239245 11.4478987597702 "
    "11.2124282696837 11.4269217682577 12.2432859438401 13.8201804108938 13.8408670746042 11.422291744251 "
    "10.5031943081843 11.9121452242965 14.0849980781312 10.5505145523917 10.1905539351877 12.2232272590821 "
    "11.7290653047821 12.2719396535996"
)
"""Concentrations at 0.5, 1, ..., 10 days, simulated by the model's authors (posteriordb, BSD licence)."""

REFERENCE = {
    "k_a": (-0.2782, 0.1006, 0.6460, 0.7550, 0.8964),
    "K_m": (-0.0729, 1.4295, 0.0859, 0.9795, 8.6852),
    "V_m": (-0.0750, 0.2902, 0.6490, 0.8973, 1.4751),
    "noise.C": (-2.0649, 0.1752, 0.0967, 0.1255, 0.1716),
}
"""Of posteriordb's 10 000 reference draws, from Stan: mean and standard deviation of the logarithm; 5 %, 50 % and 95 %
quantiles.  K_m itself has hardly a variance."""

DRAWS = 10_000

LOG_EVIDENCE = -41.135
"""By importance sampling from five Student-t distributions fitted to the reference draws, 40 000 points, on Runge-Kutta
steps of 0.0025 days: +- 0.005."""

MODEL = ps.Model(
    {"A": 1, "C": 1},
    lambda s, u, p: {"A": -p.k_a * s.A, "C": p.k_a * s.A / VOLUME - p.V_m / VOLUME * s.C / (p.K_m + s.C)},
    lambda s, u, p: {"C": s.C},
    name="one compartment",
)
INITIAL = {"A": DOSE, "C": 0.0}
PRIORS = {name: dist.HalfCauchy(1.0) for name in ("k_a", "K_m", "V_m")}
NOISE = {"C": ps.Noise(dist.HalfCauchy(1.0), transform="log")}


def record() -> ps.Record:
    """Nothing is measured at the first sample, where the concentration is zero."""
    return ps.Record(outputs={"C": np.array([np.nan, *map(float, MEASURED.split())])}, dt=DT)


def identified(particles: int, seed: int, **options: object) -> ps.Posterior:
    """All defaults but for the number of particles."""
    sampler = ps.Sampler(particles=particles)
    return ps.identify(MODEL, record(), PRIORS, NOISE, INITIAL, sampler=sampler, seed=seed, **options)
