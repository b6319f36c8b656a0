"""Settings for all tests."""

import os

# Before anything imports jax: the numbers in these tests are for the CPU.
os.environ.setdefault("JAX_PLATFORMS", "cpu")

from hypothesis import settings

# Same examples in every run; no deadline, because the first example of a shape includes its compilation.
settings.register_profile("probsysid", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("probsysid")
