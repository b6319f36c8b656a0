"""The statistical model, without data: equations, priors in unconstrained coordinates, and the problem that joins them.

In: the user's functions, priors, noise levels and initial values.  Out: a checked `Problem`, evaluated for one particle
at a time, and fingerprints that identify it.
"""
