"""Long statistical studies, outside the package: `python -m validation` runs them.

In come the package, and reference draws and benchmark results where a study needs them.
Out go docs/validation-sampler.md, docs/validation.md (honesty) and docs/benchmarks.md (benchmarks).
"""
