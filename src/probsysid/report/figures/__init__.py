"""Figures, one concept a file: each takes data and returns a matplotlib Figure, readable in a column of a paper."""
