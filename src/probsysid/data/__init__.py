"""Sampled data: records, the behaviour of inputs between samples, and readers of data files.

In: arrays, functions of time, or files.  Out: a checked, read-only `Record` whose inputs are functions of time, with
values and derivatives wherever a solver needs them.
"""
