"""Noise as it is: likelihoods against quadrature, and what the right kind does for the parameters.

    python -m validation.noise

A Duffing oscillator whose record is clipped and has outliers, and one whose noise is coloured, are identified with
Gaussian noise and with the right kind; posteriordb's Lotka-Volterra and one-compartment models in their own lognormal
form are compared with their reference draws.
"""

import time as clock
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy import integrate, stats

import probsysid as ps
from probsysid import dist
from probsysid.model.noise import NoiseForm, NoiseValues
from probsysid.odefilter.noise_likelihood import assimilate
from validation import duffing, lotka_volterra, one_compartment

ROOT = Path(__file__).resolve().parent.parent
PAGE, FIGURE = ROOT / "docs" / "validation-noise.md", ROOT / "docs" / "figures" / "noise.png"

SETS, SAMPLES = 10, 300
TRUTH = {"m": 1.0, "c": 0.2, "k": 1.0, "k3": 0.5}
PRIORS = {"m": 1.0, "c": dist.LogNormal(np.log(0.2), 0.5), "k": dist.LogNormal(0.0, 0.5), "k3": dist.Normal(0.0, 1.0)}
LEVEL, BOUND, OUTLIERS, SIZE = 0.03, 0.8, 0.05, 20.0
CORRELATION = 1.0
QUANTITIES = ("c", "k", "k3")


# Likelihoods


def likelihood_errors() -> list[str]:
    """The largest differences from quadrature, over predictions and values; one line of a table per kind."""
    lines = []
    for name, given, values, likelihood, ends in _kinds():
        errors = []
        for sd in (0.01, 0.3, 1.0, 5.0):
            for value in values:
                found = assimilate(given, jnp.asarray(value), jnp.asarray(0.0), jnp.asarray(sd**2))
                ours = float(found.energy), float(found.correction) * sd, 1 - float(found.shrink) * sd**2
                errors.append(np.abs(np.subtract(ours, _quadrature(partial(likelihood, value), sd, ends(value)))))
        energy, mean, spread = np.max(errors, axis=0)
        lines.append(f"| {name} | {energy:.0e} | {mean:.0e} | {spread:.0e} |")
    return lines


def _kinds() -> list[tuple[str, NoiseValues, Sequence[float], Callable[[float, float], float], Callable[..., Any]]]:
    def noise(degrees: float | None = None, **form: Any) -> NoiseValues:
        return NoiseValues(jnp.asarray(1.0), None if degrees is None else jnp.asarray(degrees), None, NoiseForm(**form))

    def quantised(value: float, x: float) -> float:
        a, b = sorted((-abs(value - x) - 0.25, -abs(value - x) + 0.25))
        return float(stats.norm.cdf(b) - stats.norm.cdf(a)) / 0.5

    found: list[Any] = [
        (
            f"Student-t, {degrees:g} degrees",
            noise(degrees),
            (0.0, 1.0, 3.0, 8.0, 30.0, 300.0),
            lambda value, x, degrees=degrees: float(stats.t.pdf(value - x, degrees)),
            lambda value: [value + k for k in (-4, -1, 0, 1, 4)],
        )
        for degrees in (1.0, 2.0, 4.0, 30.0)
    ]
    found.append(
        ("quantised, step 0.5 levels", noise(step=0.5), (0.0, 1.0, 3.0), quantised, lambda v: [v - 0.25, v + 0.25])
    )
    for degrees, word in ((None, "Gaussian"), (4.0, "Student-t, 4 degrees")):
        one = stats.norm() if degrees is None else stats.t(degrees)
        for bound in (-4.0, 0.5, 3.0):
            found.append(
                (
                    f"clipped at {bound:g}, {word}",
                    noise(degrees, upper=bound),
                    (bound,),
                    lambda value, x, one=one: float(one.sf(value - x)),
                    lambda value: [value - 1, value, value + 1],
                )
            )
    return found


def _quadrature(likelihood: Callable[[float], float], sd: float, breaks: Sequence[float]) -> tuple[float, float, float]:
    """Energy, change of the mean and ratio of standard deviations, in units of the prediction's."""
    edges = [-12 * sd, *sorted(x for x in (0.0, *breaks) if abs(x) < 12 * sd), 12 * sd]

    def moment(k: int) -> float:
        def integrand(x: float) -> float:
            return likelihood(x) * float(stats.norm.pdf(x, 0, sd)) * (x / sd) ** k

        return sum(integrate.quad(integrand, a, b, epsabs=0, epsrel=1e-11, limit=400)[0] for a, b in pairwise(edges))

    total, first, second = (moment(k) for k in range(3))
    return -float(np.log(total)), first / total, float(np.sqrt(second / total - (first / total) ** 2))


# Data sets


def outlier_record(seed: int) -> ps.Record:
    """Clipped at both bounds, and outliers among the rest."""
    random = np.random.default_rng([seed, 1])
    clean = duffing.measured(duffing.multisine(SAMPLES, seed), TRUTH, 0.0, np.zeros(2), random)
    scale = np.where(random.uniform(size=SAMPLES) < OUTLIERS, SIZE * LEVEL, LEVEL)
    values = np.asarray(clean.outputs["position"]) + scale * random.standard_normal(SAMPLES)
    return clean.replace(outputs={"position": np.clip(values, -BOUND, BOUND)})


def coloured_record(seed: int) -> ps.Record:
    """Noise with a correlation time of five samples."""
    random = np.random.default_rng([seed, 2])
    clean = duffing.measured(duffing.multisine(SAMPLES, seed), TRUTH, 0.0, np.zeros(2), random)
    memory, noise = np.exp(-duffing.DT / CORRELATION), [random.standard_normal()]
    for _ in range(SAMPLES - 1):
        noise.append(memory * noise[-1] + np.sqrt(1 - memory**2) * random.standard_normal())
    return clean.replace(outputs={"position": np.asarray(clean.outputs["position"]) + LEVEL * np.array(noise)})


def posterior(record: ps.Record, noise: Any, seed: int) -> ps.Posterior:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ps.identify(
            duffing.MODEL,
            record,
            PRIORS,
            noise=noise,
            initial={"x": 0.0, "dx": 0.0},
            solver=ps.Solver(substeps=1),
            sampler=ps.Sampler(particles=256),
            seed=seed,
        )


CASES: Mapping[str, tuple[Callable[[int], ps.Record], Mapping[str, Any]]] = {
    "clipped, outliers": (
        outlier_record,
        {"Gaussian": None, "Student-t, clipped": {"position": ps.Noise(degrees="auto", lower=-BOUND, upper=BOUND)}},
    ),
    "coloured": (
        coloured_record,
        {"Gaussian": None, "coloured": {"position": ps.Noise(time=dist.LogNormal(0.0, 1.0))}},
    ),
}


def scores(found: Sequence[ps.Posterior]) -> dict[str, np.ndarray]:
    """(mean - truth) / sd of each quantity, by data set."""
    return {name: np.array([(p.mean(name) - TRUTH[name]) / p.sd(name) for p in found]) for name in QUANTITIES}


def study() -> tuple[list[str], dict[str, dict[str, np.ndarray]]]:
    """Lines of a table, and the z-scores by case and noise."""
    lines, all_scores = [], {}
    for case, (make, kinds) in CASES.items():
        for kind, noise in kinds.items():
            found = [posterior(make(seed), noise, seed) for seed in range(SETS)]
            z = all_scores[f"{case}: {kind}"] = scores(found)
            evidence = np.mean([p.log_evidence for p in found])
            for name in QUANTITIES:
                inside = np.mean([p.quantile(name, 0.05) <= TRUTH[name] <= p.quantile(name, 0.95) for p in found])
                rms, largest = np.sqrt(np.mean(z[name] ** 2)), np.max(np.abs(z[name]))
                lines.append(
                    f"| {case} | {kind} | {name} | {rms:.2f} | {largest:.1f} | "
                    f"{100 * inside:.0f} | {np.mean([p.sd(name) for p in found]):.4f} | {evidence:.1f} |"
                )
            print(case, kind, {n: round(float(np.sqrt(np.mean(v**2))), 2) for n, v in z.items()}, flush=True)
    return lines, all_scores


def figure(all_scores: Mapping[str, Mapping[str, np.ndarray]]) -> None:
    import matplotlib.pyplot as plt

    record = outlier_record(0)
    measured = np.asarray(record.outputs["position"])
    truth = duffing.measured(duffing.multisine(SAMPLES, 0), TRUTH, 0.0, np.zeros(2), np.random.default_rng(0))
    clipped = np.abs(measured) >= BOUND
    shown, axes = plt.subplots(1, 2, figsize=(11, 3.6), width_ratios=(3, 2), layout="constrained")
    axes[0].plot(record.time, truth.outputs["position"], color="0.6", lw=1, label="motion")
    axes[0].plot(record.time[~clipped], measured[~clipped], ".", ms=3, color="C0", label="measured")
    axes[0].plot(record.time[clipped], measured[clipped], "v", ms=3, color="C3", label="clipped")
    axes[0].set(xlabel="time [s]", ylabel="position", title="first data set")
    axes[0].legend(frameon=False, fontsize="small", ncols=3)
    for row, by_name in enumerate(all_scores.values()):
        for offset, name in enumerate(QUANTITIES):
            height = np.full(SETS, -row + 0.2 * (1 - offset))
            axes[1].plot(by_name[name], height, ".", color=f"C{offset}", label=name if row == 0 else None)
    axes[1].set_yticks([-row for row in range(len(all_scores))], list(all_scores))
    axes[1].axvspan(-2, 2, color="0.9", zorder=0)
    axes[1].set(xlabel="(mean - truth) / sd", title=f"{SETS} data sets")
    axes[1].legend(frameon=False, fontsize="small")
    shown.savefig(FIGURE, dpi=130)
    plt.close(shown)


# posteriordb


def lognormal() -> list[str]:
    """Lotka-Volterra in its own form: the counts themselves, with lognormal noise."""
    reference = lotka_volterra.Reference.read()
    if reference is None:
        return ["Not run: the reference draws are not beside PROBSYSID_DATA."]
    model = ps.Model(
        lotka_volterra.MODEL.coordinates,
        lotka_volterra.MODEL.dynamics,
        lambda s, u, p: {"hare": s.hare, "lynx": s.lynx},
        name="Lotka-Volterra model",
    )
    counts = np.full((lotka_volterra.STEPS * (len(reference.counts) - 1) + 1, 2), np.nan)
    counts[:: lotka_volterra.STEPS] = reference.counts
    found = ps.identify(
        model,
        ps.Record(outputs={"hare": counts[:, 0], "lynx": counts[:, 1]}, dt=1 / lotka_volterra.STEPS),
        lotka_volterra.PRIORS,
        {name: ps.Noise(lotka_volterra.NOISE[f"log_{name}"], transform="log") for name in ("hare", "lynx")},
        lotka_volterra.INITIAL,
        solver=lotka_volterra.SOLVER,
        sampler=ps.Sampler(particles=4096),
    )
    lines = [
        f"Log evidence {found.log_evidence:.3f} +- {found.log_evidence_error:.3f}; the reference is "
        f"{lotka_volterra.LOG_EVIDENCE}.",
        "",
        "| quantity | difference of means / sd | ratio of sd |",
        "| --- | --- | --- |",
    ]
    for name, draws in reference.draws.items():
        ours = name.replace("log_", "")
        difference = (found.mean(ours) - draws.mean()) / draws.std()
        lines.append(f"| {ours} | {difference:.3f} | {found.sd(ours) / draws.std():.3f} |")
    return lines


def one_compartment_lines() -> list[str]:
    """posteriordb's one-compartment model with lognormal noise, all defaults."""
    found = one_compartment.identified(4096, 0)
    verdict = found.verdict[0].upper() + found.verdict[1:]
    lines = [
        f"Log evidence {found.log_evidence:.3f} +- {found.log_evidence_error:.3f}; the reference is "
        f"{one_compartment.LOG_EVIDENCE} +- 0.005. {verdict}",
        "",
        "| quantity | difference of means of the log / sd | ratio of sd | 5 %, 50 %, 95 % | of the reference |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, (mean, sd, *quantiles) in one_compartment.REFERENCE.items():
        values, weights = np.log(found.values[name]), found.weights
        centre = weights @ values
        spread = np.sqrt(weights @ (values - centre) ** 2)
        ours = ", ".join(f"{found.quantile(name, level):.3f}" for level in (0.05, 0.5, 0.95))
        theirs = ", ".join(f"{value:.3f}" for value in quantiles)
        lines.append(f"| {name} | {(centre - mean) / sd:.3f} | {spread / sd:.3f} | {ours} | {theirs} |")
    return lines


def main() -> None:
    began = clock.perf_counter()
    likelihoods = likelihood_errors()
    reference = [*lognormal(), ONE_COMPARTMENT, *one_compartment_lines()]
    print("\n".join([*likelihoods, *reference]), flush=True)
    lines, all_scores = study()
    figure(all_scores)
    parts = [TEXT, *likelihoods, LOGNORMAL, *reference, RECORDS, *lines, CAPTION]
    day, minutes = clock.strftime("%Y-%m-%d"), (clock.perf_counter() - began) / 60
    PAGE.write_text("\n".join(parts) + f"\n*{day}, probsysid {ps.__version__}, {minutes:.0f} min.*\n")


TEXT = """# Validation: measurement noise

Made by `python -m validation.noise`.

## Likelihoods against quadrature

The filter predicts the output without noise as a Gaussian; the energy of a sample is its noise's likelihood integrated
against that, and the state is updated by the first two moments. Largest absolute differences from adaptive quadrature
over predictions with standard deviations of 0.01 to 5 noise levels and values up to 300 levels off (Student-t), 3
(quantised), and at the bound (clipped): of the energy, of the change of the mean and of the ratio of the standard
deviations of the output, both in its predicted standard deviations. Quadrature itself is good to 1e-9.

| noise | energy | mean | standard deviation |
| --- | --- | --- | --- |"""

LOGNORMAL = """
Coloured noise is exact: `tests/odefilter/test_coloured_noise.py` compares energies, filtered and smoothed states
with one Gaussian over all states of all steps and the noise at all samples, to 1e-8, for irregular and missing samples,
restarts, several coloured outputs and both forms of the filter.

## posteriordb's Lotka-Volterra model in its own form

`Noise(transform="log")` on the counts themselves, 4096 particles.
"""

ONE_COMPARTMENT = """
## posteriordb's one-compartment model in its own form

Michaelis-Menten elimination with first-order absorption (one_comp_mm_elim_abs): 20 concentrations with lognormal
noise, half-Cauchy priors of everything, all settings by default but for 4096 particles. The concentration is zero at
first, where nothing is measured. The reference are posteriordb's 10 000 draws by Stan, whose means are good to 0.01
sd; its evidence is ours, by importance sampling on fine Runge-Kutta steps (`validation/one_compartment.py`). K_m,
known to a factor of ten, has hardly a variance: logarithms are compared.

Where K_m is small, the elimination saturates within minutes after the dose, and 32 steps per sample lose that corner
of the posterior, some 2 % of it: the run goes on to 128. The weights between 128 and 256 steps have a heavy tail of
differences that are all small, which is no reason for an alarm (`tests/posterior/diagnostics/test_solver_check.py`).
"""

RECORDS = f"""
## Records with such noise

A Duffing oscillator driven by a multisine, {SAMPLES} samples, noise level {LEVEL}. *Clipped, outliers*: {OUTLIERS:.0%}
of the values have {SIZE:g} times the noise, and all are clipped at +-{BOUND}; the right kind here is Student-t noise of
unknown degrees, which the outliers do not have exactly. *Coloured*: first-order autoregressive noise with a correlation
time of {CORRELATION:g} s, five samples. {SETS} data sets each: rms and largest |z|, the distance of the mean from the
truth in posterior standard deviations, percentage of 90 % intervals that hold the truth, mean standard deviation, mean
log evidence.

| data | noise | quantity | rms z | largest z | 90 % | sd | log evidence |
| --- | --- | --- | --- | --- | --- | --- | --- |"""

CAPTION = """
![A clipped record with outliers, and z-scores of all data sets](figures/noise.png)
"""

if __name__ == "__main__":
    main()
