"""Targets of the sampler whose energies come from the ODE filter.

In: a problem (model, priors), solver settings, records or a stream, and an executor.  Out: log priors and energies of
particles over ranges of samples.  `filter_target` holds what batch and stream share.
"""
