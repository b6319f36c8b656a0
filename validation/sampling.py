"""`python -m validation.sampling [modes|tanks]`: posteriors that are hard to sample, against what is known of them.

The gain b^2 of a first-order system, whose sign of b nobody can know, and the cascaded tanks.
"""

import sys
import time
import warnings

import numpy as np

import probsysid as ps
from probsysid.posterior.simulate import simulate
from validation import tanks

dist = ps.dist

SEEDS = 12

TANKS = 163.73
"""Log evidence of the tanks: the mean of three rounds of importance sampling with 900 effective draws each, +- 0.02."""


def two_modes() -> tuple[ps.Model, ps.Record]:
    """x' = a (b^2 u - x), 200 samples with noise of 0.05."""
    model = ps.Model({"x": 1}, lambda s, u, p: {"x": p.a * (p.b**2 * u.u - s.x)})
    random = np.random.default_rng(0)
    inputs = ps.Record({"u": np.repeat(random.standard_normal(20), 10)}, dt=0.1)
    truth = {"a": np.array([1.0]), "b": np.array([1.5])}
    outputs, _, _ = simulate(model, truth, np.zeros((1, 1)), inputs)
    return model, inputs.replace(outputs={"x": outputs["x"][0] + 0.05 * random.standard_normal(200)})


def modes() -> None:
    model, record = two_modes()
    priors = {"a": dist.LogNormal(0.0, 1.0), "b": dist.Normal(0.0, 2.0)}
    shares = []
    for seed in range(SEEDS):
        posterior = ps.identify(model, record, priors, {"x": dist.LogNormal(-3.0, 1.0)}, {"x": 0.0}, seed=seed)
        shares.append(float(posterior.weights @ (posterior.values["b"] > 0)))
        print(f"seed {seed}: P(b > 0) = {shares[-1]:.3f}, {_evidence(posterior)}", flush=True)
    print(f"mean {np.mean(shares):.3f}, standard deviation {np.std(shares, ddof=1):.3f}")


def cascaded_tanks() -> None:
    for seed in range(3):
        began = time.perf_counter()
        posterior = ps.identify(
            tanks.MODEL, tanks.record(), tanks.PRIORS, tanks.NOISE, tanks.INITIAL, solver=tanks.SOLVER, seed=seed
        )
        seconds = time.perf_counter() - began
        print(f"seed {seed}: {_evidence(posterior)} (known {TANKS}), {seconds:.0f} s", flush=True)
        print(posterior.table()[["mean", "sd", "r_hat", "ess"]].to_string(float_format="{:.5g}".format))
        print(posterior.sampling_verdict)


def _evidence(posterior: ps.Posterior) -> str:
    trusted = "trusted" if posterior.sampling.trusted else "not trusted"
    return f"log evidence {posterior.log_evidence:.2f} +- {posterior.log_evidence_error:.2f}, {trusted}"


STUDIES = {"modes": modes, "tanks": cascaded_tanks}

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for name in sys.argv[1:] or STUDIES:
        STUDIES[name]()
