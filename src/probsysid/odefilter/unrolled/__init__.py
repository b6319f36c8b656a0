"""The filter for small states, its algebra written out number by number."""
