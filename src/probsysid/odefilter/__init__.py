"""A probabilistic ODE solver: integrated Wiener process prior, conditioned on the ODE and on data."""
