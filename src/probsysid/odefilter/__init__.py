"""A probabilistic ODE solver: an extended Kalman filter with an integrated Wiener process prior, given ODE and data.

In: a model, a record and particles (parameters, noise, initial state).  Out: each particle's energy per sample, that is
the negative log predictive density, and filtered and smoothed states.
"""
