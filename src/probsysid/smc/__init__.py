"""Sequential Monte Carlo over parameters: iterated batch importance sampling, in batch and online.

In: a `Target` (prior, and energies of particles over ranges of samples) and `Sampler` settings.  Out: an `IBISState`
with weighted particles and evidence, and a `History`.  Nothing here knows about ODEs.
"""
