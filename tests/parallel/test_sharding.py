"""Particles over several devices: the same energies, states and posteriors, wherever a particle is filtered."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from probsysid.parallel.sharding import prefetch

PROGRAM = """
import warnings
import jax, numpy as np
import probsysid as ps
from probsysid.parallel.sharding import Devices, rows_of, shard
from probsysid import dist

assert len(jax.devices()) == 4
lag = ps.Model({"x": 1}, lambda s, u, p: {"x": p.gain * u.u - s.x / p.tau})
time = 0.1 * np.arange(60)
record = ps.Record(
    inputs={"u": np.sin(time)},
    outputs={"x": np.sin(time - 0.8) + 0.1 * np.random.default_rng(0).standard_normal(60)},
    dt=0.1,
    intersample="linear",
)
given = {
    "priors": {"gain": dist.LogNormal(0, 1), "tau": dist.LogNormal(0, 1)},
    "noise": {"x": dist.LogNormal(-2, 1)},
    "initial": {"x": 0.0},
    "solver": ps.Solver(substeps=1),
    "sampler": ps.Sampler(particles=128, recover=False),  # a stream does not recover
}
warnings.simplefilter("ignore", ps.ModelWarning)

def posterior(devices):
    return ps.identify(lag, record, executor=Devices(devices, fewest=1), **given)

one = posterior(1)
for devices in DEVICES:
    many = posterior(devices)
    assert Devices(devices, fewest=1).mesh(128).devices.size == devices
    # the same random decisions (another one would differ by a hundredth), up to rounding that grows from proposal to
    # proposal
    np.testing.assert_allclose(many.theta, one.theta, rtol=0, atol=1e-7)
    np.testing.assert_allclose(many.weights, one.weights, rtol=1e-5)
    np.testing.assert_allclose(many.log_evidence, one.log_evidence, rtol=1e-9)
# a stream is the batch run, to the bit
stream = ps.Identifier(lag, dt=0.1, intersample="linear", executor=Devices(1, fewest=1), **given)
stream.update(record.inputs, record.outputs)
np.testing.assert_array_equal(stream.posterior.theta, one.theta)
# rows come to the host in the order of particles
mesh = Devices(4, fewest=1).mesh(128)
values = np.random.default_rng(1).standard_normal((6, 128))
np.testing.assert_array_equal(rows_of(shard(values, mesh), 5), values[:5])
# particles dealt out beforehand stay where they are
dealt = shard({"a": np.zeros((2, 128))}, mesh)
assert shard(dealt, mesh)["a"] is dealt["a"]
# a number of particles that does not divide evenly uses fewer devices
assert Devices(4, fewest=1).mesh(126).devices.size == 3
assert Devices(4, fewest=1).mesh(127) is None
# nor are few particles spread thinly
assert Devices().mesh(300).devices.size == 2
assert Devices().mesh(128) is None
print("same")
"""


def optimised(flags: str) -> str:
    """XLA's flags without those with which tests compile quickly."""
    return " ".join(flag for flag in flags.split() if "optimization_level" not in flag and "emitters" not in flag)


@pytest.mark.slow
@pytest.mark.parametrize("devices", [pytest.param((2, 4), marks=pytest.mark.long), (4,)])
def test_the_number_of_devices_does_not_matter(devices: tuple[int, ...]) -> None:
    """In a process of its own: the number of devices is fixed when JAX begins.  With asynchronous calls: otherwise
    threads take the place of devices (test_threads.py).  With optimised machine code, unlike the other tests
    (conftest.py), so that a stream is also compared with a batch run where loops are vectorised."""
    environment = {
        **os.environ,
        "XLA_FLAGS": optimised(os.environ["XLA_FLAGS"]),
        "PROBSYSID_DEVICES": "4",
        "JAX_CPU_ENABLE_ASYNC_DISPATCH": "true",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = subprocess.run(
        [sys.executable, "-c", f"DEVICES = {devices}\n{PROGRAM}"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout == "same\n", done.stderr


def test_calls_are_made_ahead_of_looking_at_their_results() -> None:
    """Two further ones; every result comes, in order."""
    made: list[int] = []

    def calls() -> Iterator[int]:
        for k in range(5):
            made.append(k)
            yield k

    seen = [(result, len(made)) for result in prefetch(calls(), 2)]
    assert seen == [(0, 3), (1, 4), (2, 5), (3, 5), (4, 5)]
    assert list(prefetch(iter([7]), 2)) == [7]
