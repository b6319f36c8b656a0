"""The honesty matrix: are posteriors calibrated, whatever integrates the ODE?

In come four systems with known constants (`problems`) and six likelihoods (`methods`); `study` runs every cell.
Out goes docs/validation.md with its figures.
"""
