"""The filter for small states, its square-root algebra written out number by number.

In: one particle and one interval's data.  Out: its state as lists of scalars, with structural zeros left out.
"""
