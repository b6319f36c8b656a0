"""The filter for large states, in matrices."""
