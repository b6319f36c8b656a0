"""Which terms a model should have: a menu of optional terms, searched by log evidence.

In: a model, a menu of terms and records.  Out: a `Selection`: models and terms with their
probabilities, and the tree of the search.
"""
