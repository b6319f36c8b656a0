"""Settings for all tests."""

import os

# Before anything imports jax: the numbers in these tests are for the CPU.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# The options for XLA that probsysid sets itself, without those for LLVM: these make long runs faster and compilation
# several times slower, and tests mostly compile.  perf/kernel.py checks the energies with all of them.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=4000000,xla_cpu_use_multi_output_fusion=true",
)

from hypothesis import settings

# Same examples in every run; no deadline, because the first example of a shape includes its compilation.
settings.register_profile("probsysid", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("probsysid")
