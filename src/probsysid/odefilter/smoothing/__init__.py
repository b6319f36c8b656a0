"""Smoothed states and sample paths: backwards through what the filter went through."""
