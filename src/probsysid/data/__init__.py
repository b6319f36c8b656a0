"""Sampled data: records, what inputs do between samples, and readers of data files."""
