"""The filter for large states, its square-root algebra in matrices: batched over particles, or with LAPACK.

In: one particle and one interval's data.  Out: its state as arrays.
"""
