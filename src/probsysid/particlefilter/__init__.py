"""Particle filters: unbiased estimates of likelihoods that are not Gaussian sample by sample.

In: a model with a diffusion or with outputs that are distributions, samples, particles.  Out: estimated energies, and
the points that stand for the state of each particle.
"""
