"""Long statistical studies: `python -m validation` runs them and writes docs/validation-sampler.md."""
