"""The cascaded tanks with all defaults: does the noise take the misfit, and what is a prediction worth?

    python -m validation.tanks_default

Two models, neither of them right: that of the catalogue, without overflow and with a held input, and the one with
overflow and leaks.  Nothing is set but priors.  An engineer expects output error: a noise level as large as what the
free run leaves of the training record, and no alarm of the integration.  The validation record starts from a state that
is estimated from its first 50 samples, which are not scored.
"""

import argparse
import time
import warnings

import numpy as np

import probsysid as ps
from probsysid import dist
from probsysid.benchmarks import tanks
from probsysid.model.equations import parse
from probsysid.model.model_equations import ModelEquations
from probsysid.study.catalogue import look_up

SCORED = slice(tanks.START_SAMPLES, None)
COLUMNS = (
    "model",
    "noise level, V",
    "training rmse, V",
    "integration",
    "trusted",
    "log evidence",
    "validation rmse, V",
    "in 90 % band",
    "rms of standardised errors",
    "processor time",
)


def catalogue_model() -> ps.Model:
    """As in the catalogue, of which only the lower level is measured."""
    entry = look_up("cascaded-tanks")
    equations = {name: parse(text) for name, text in entry.equations.items()}
    written = ModelEquations(entry.coordinates, equations, {"level": parse("h2")}, ("flow",))
    return ps.Model(written.coordinates, written.dynamics, written.measured, units={"level": "V"})


def held(part: str) -> ps.Record:
    given = tanks.record(part)
    pump = np.asarray(given.inputs["pump"])
    return ps.Record({"flow": pump}, given.outputs, dt=tanks.DT, intersample="zoh", name=given.name)


def problems() -> dict[str, tuple]:
    wide = {name: dist.LogNormal(np.log(0.05), 1.5) for name in ("k1", "k2", "k3", "k4")}
    initial = {"h1": dist.TruncatedNormal(5.0, 3.0, low=0.0), "h2": dist.Normal(5.2, 0.3)}
    return {
        "catalogue, held input": (catalogue_model(), held("Est"), held("Val"), wide, initial),
        "overflow": (tanks.model, tanks.record("Est"), tanks.record("Val"), tanks.PRIORS, tanks.INITIAL),
    }


def row(name: str, particles: int) -> str:
    model, training, validation, priors, initial = problems()[name]
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ps.ModelWarning)
        posterior = ps.identify(model, training, priors, initial=initial, sampler=ps.Sampler(particles=particles))
    seconds = time.process_time() - began
    assert posterior.sampling is not None and posterior.check is not None
    fitted = posterior.simulate(training).rmse().mean
    found = posterior.predict(validation, initial="estimate", initial_samples=tanks.START_SAMPLES)
    measured = np.asarray(validation.outputs["level"])[SCORED]
    errors = measured - found["level"].to_numpy()[SCORED]
    rms = np.sqrt(np.mean((errors / found["level_sd"].to_numpy()[SCORED]) ** 2))
    free = posterior.simulate(validation, initial="estimate", initial_samples=tanks.START_SAMPLES).rmse().mean
    return (
        f"| {name} | {posterior.mean('noise.level'):.4f} | {fitted:.4f} | "
        f"{'negligible' if posterior.check.adequate else 'alarm'} | {'yes' if posterior.sampling.trusted else 'no'} | "
        f"{posterior.log_evidence:.2f} | {free:.3f} | {100 * found.attrs['level_coverage']:.1f} % | {rms:.2f} | "
        f"{seconds:.0f} s |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m validation.tanks_default")
    parser.add_argument("--particles", type=int, default=ps.Sampler().particles)
    parser.add_argument("model", nargs="*", help="default: both")
    arguments = parser.parse_args()
    print("| " + " | ".join(COLUMNS) + " |")
    print("|---" * len(COLUMNS) + "|")
    for name in arguments.model or problems():
        print(row(name, arguments.particles), flush=True)


if __name__ == "__main__":
    main()
