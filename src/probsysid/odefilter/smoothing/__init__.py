"""Rauch-Tung-Striebel smoothing: marginals and joint sample paths given the whole record, and dense output.

In: an ODE filter, particles and a record's samples.  Out: Gaussians and paths at the steps, at the samples or between.
"""
