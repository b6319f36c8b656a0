"""The cascaded tanks with overflow and leaks: a real system whose model is not quite right.

The posterior has one mode, on a curved ridge: its covariance has a condition number of 4e10 in the sampling
coordinates.
"""

import probsysid as ps
from probsysid.benchmarks.tanks import INITIAL, NOISE, PRIORS, model, record

MODEL = model

SOLVER = ps.Solver(conditioning="solver", substeps=2)
"""As accurate as the sampling needs, and the data correct no state: output error."""

__all__ = ["INITIAL", "MODEL", "NOISE", "PRIORS", "SOLVER", "record"]
