"""A parameter that differs between records: are its spread, its common value and its values covered?

    python -m validation.varies

Eight records of a Duffing oscillator whose linear stiffness k differs by 5 % between them; a ninth is predicted.
Identified with `varies={"k": ...}`, and once more as if k were the same in all.
"""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import probsysid as ps
from probsysid import dist
from probsysid.posterior.simulate import simulate

PAGE = Path(__file__).resolve().parent.parent / "docs" / "validation-varies.md"
SETS, RECORDS, SAMPLES, DT = 20, 8, 80, 0.25
NOISE, SPREAD = 0.05, 0.05
TRUTH = {"c": 0.2, "k": 1.0, "k3": 0.5}
START = {"x": 1.0, "dx": 0.0}
LEVEL = 0.9

MODEL = ps.Model(
    {"x": 2},
    lambda s, u, p: {"x": u.force - p.c * s.dx - p.k * s.x - p.k3 * s.x**3},
    lambda s, u, p: {"position": s.x},
    name="Duffing",
)
PRIORS = {"c": dist.LogNormal(np.log(0.2), 0.5), "k": dist.LogNormal(0.0, 0.5), "k3": dist.LogNormal(np.log(0.5), 0.5)}


def record(k: float, random: np.random.Generator) -> ps.Record:
    """Simulated accurately, driven by two tones of random phases, held between samples."""
    time = DT * np.arange(SAMPLES)
    phases = random.uniform(0, 2 * np.pi, 2)
    inputs = {"force": 0.5 * np.cos(0.9 * time + phases[0]) + 0.3 * np.sin(1.7 * time + phases[1])}
    bare = ps.Record(inputs, dt=DT, intersample="zoh")
    parameters = {name: np.array([value]) for name, value in {**TRUTH, "k": k}.items()}
    outputs, _, _ = simulate(MODEL, parameters, np.array([[value] for value in START.values()]), bare)
    measured = outputs["position"][0] + NOISE * random.standard_normal(SAMPLES)
    return ps.Record(inputs, {"position": measured}, dt=DT, intersample="zoh")


def data_set(seed: int) -> tuple[list[ps.Record], list[float]]:
    """Nine records, and the stiffness of each."""
    random = np.random.default_rng(seed)
    stiffness = [float(TRUTH["k"] * np.exp(SPREAD * z)) for z in random.standard_normal(RECORDS + 1)]
    return [record(k, random) for k in stiffness], stiffness


def posterior(records: Sequence[ps.Record], seed: int, varies: Mapping[str, Any] | None) -> ps.Posterior:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ps.ModelWarning)
        return ps.identify(
            MODEL,
            list(records),
            PRIORS,
            noise={"position": dist.LogNormal(np.log(0.05), 1.0)},
            initial=START,
            varies=varies,
            solver=ps.Solver(substeps=1),
            sampler=ps.Sampler(particles=512),
            seed=seed,
        )


def rows(method: str, found: Sequence[ps.Posterior], truths: Sequence[Mapping[str, float]]) -> list[str]:
    """One line per quantity, values by record together: mean, sd, rms z and coverage of the 90 % intervals."""
    groups: dict[str, list[Any]] = {}
    for each, truth in zip(found, truths, strict=True):
        table = each.table()
        for quantity in [q for q in table.index if q in truth]:
            name = "k by record" if "[" in quantity else quantity
            groups.setdefault(name, []).append((table.loc[quantity], truth[quantity]))
    lines = []
    for name, pairs in groups.items():
        z = np.array([(row["mean"] - truth) / row["sd"] for row, truth in pairs])
        inside = np.mean([row["q05"] <= truth <= row["q95"] for row, truth in pairs])
        true = f"{pairs[0][1]:g}" if "record" not in name else "its own"
        mean, sd = (np.mean([row[key] for row, _ in pairs]) for key in ("mean", "sd"))
        lines.append(
            f"| {method} | {name} | {true} | {mean:.4f} | {sd:.4f} | {np.sqrt(np.mean(z**2)):.2f} | "
            f"{np.max(np.abs(z)):.1f} | {100 * inside:.0f} |"
        )
    return lines


def prediction(method: str, found: Sequence[ps.Posterior], ninth: Sequence[ps.Record]) -> str:
    """How well the ninth records are predicted in free run."""
    coverage, squares = [], []
    for each, new in zip(found, ninth, strict=True):
        predicted = each.predict(new, level=LEVEL, initial=START)
        coverage.append(predicted.attrs["position_coverage"])
        errors = np.asarray(new.outputs["position"]) - predicted["position"].values
        squares.append(np.mean((errors / predicted["position_sd"].values) ** 2))
    error = np.std(coverage, ddof=1) / np.sqrt(len(coverage))
    return (
        f"| {method} | {100 * np.mean(coverage):.0f} ± {100 * error:.0f} | {100 * np.min(coverage):.0f} | "
        f"{np.sqrt(np.mean(squares)):.2f} |"
    )


def main() -> None:
    sets = [data_set(seed) for seed in range(SETS)]
    constants = {**TRUTH, "noise.position": NOISE, "k.spread": SPREAD}
    truths = [{**constants, **{f"k[{r}]": k for r, k in enumerate(own[:RECORDS])}} for _, own in sets]
    ninth = [records[RECORDS] for records, _ in sets]
    lines, predictions, acceptance = [], [], []
    for method, varies in (("varies", {"k": dist.HalfNormal(0.1)}), ("the same k for all", None)):
        found = [posterior(records[:RECORDS], seed, varies) for seed, (records, _) in enumerate(sets)]
        lines += rows(method, found, truths)
        predictions.append(prediction(method, found, ninth))
        rates = np.concatenate([each.history.table()["acceptance"] for each in found])
        sweeps = np.mean([each.settings.sweeps for each in found])
        trusted = sum(each.sampling is not None and each.sampling.trusted for each in found)
        acceptance.append(f"| {method} | {np.median(rates):.2f} | {sweeps:.0f} | {trusted} of {SETS} |")
    page = TEXT.format(quantities="\n".join(lines), predictions="\n".join(predictions), runs="\n".join(acceptance))
    PAGE.write_text(page)


TEXT = f"""# Validation: parameters that differ between records

Made by `python -m validation.varies`.

A Duffing oscillator whose linear stiffness k differs between records: log k is normally distributed around log 1 with
standard deviation {SPREAD} (5 %). {RECORDS} records of {SAMPLES} samples of {DT} s, from known initial states, noise
{NOISE}; all constants and the noise level are inferred, with `varies={{{{"k": dist.HalfNormal(0.1)}}}}` and, on the
same data, without. {SETS} data sets.

After the true value: means over data sets of posterior mean and standard deviation; rms and largest |z|, the distance
of the mean from the truth in posterior standard deviations; percentage of 90 % intervals that hold the truth (standard
error of a percentage: 7, of `k by record` 2.4).

| method | quantity | truth | mean | sd | rms z | largest z | 90 % |
| --- | --- | --- | --- | --- | --- | --- | --- |
{{quantities}}

A ninth record with a stiffness of its own, predicted in free run: percentage of samples in the 90 % band, in the mean
over data sets and in the worst, and rms of standardised errors.

| method | in 90 % band | worst | rms of standardised errors |
| --- | --- | --- | --- |
{{predictions}}

The runs, with 512 particles: median acceptance rate of moves, sweeps over the data, and runs whose sampling verdict is
good.

| method | acceptance | sweeps | trusted |
| --- | --- | --- | --- |
{{runs}}
"""

if __name__ == "__main__":
    main()
