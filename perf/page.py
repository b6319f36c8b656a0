"""The page of timings, docs/performance.md, from the figures of the other scripts.

python perf/page.py [--run] [--only SECTION] [--folder build/perf] [--out docs/performance.md] [--note TEXT]

Reads one JSON file per script from the folder; a section whose file is missing is replaced by a sentence.  With --run,
every script is run first (about half an hour on two idle cores).
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
SCRIPTS = {
    "kernel": ("kernel.py", "--sizes"),
    "end_to_end": ("end_to_end.py",),
    "pilot": ("pilot.py", "--alone"),
    "scaling": ("scaling.py",),
    "sampler": ("sampler.py",),
    "online": ("online.py",),
}
"""Each takes --json FILE."""
NEED_DATA = ("sampler", "online")

Figures = Mapping[str, Any]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def number(value: float | None, digits: int = 3) -> str:
    """With that many significant digits, without an exponent where possible; a dash for a missing value."""
    if value is None or value != value:
        return "-"
    if value != 0 and not 1e-3 <= abs(value) < 1e6:
        return f"{value:.{digits - 1}e}"
    text = f"{value:.{digits}g}"
    return f"{float(text):.0f}" if "e" in text else text


def command(name: str) -> str:
    script, *options = SCRIPTS[name]
    return f"`{' '.join(['.venv/bin/python', f'perf/{script}', *options, '--json', 'FILE'])}`"


# Sections, each from one file


def kernel(figures: Figures) -> str:
    problems = [name for name in ("duffing", "bouc_wen") if name in figures]
    labels = {
        "ours": "probsysid",
        "defaults": "probsysid, local diffusion",
        "c": "C, hand-written",
        "rk4": "Runge-Kutta",
        "pilot": "the pilot",
        "c_pilot": "the pilot in C",
        "probdiffeq": "probdiffeq",
        "rodeo": "rodeo",
        "probdiffeq_without_data": "probdiffeq, ODE alone",
        "rodeo_without_data": "rodeo, ODE alone",
    }
    head = ["nanoseconds", *(cell for name in problems for cell in (name, "over ours"))]
    rows = []
    for key, label in labels.items():
        cells = []
        for name in problems:
            value, own = figures[name].get(key), figures[name]["ours"]
            cells += [number(value), "-" if value is None else number(value / own, 2)]
        rows.append([label, *cells])
    compiling = " and ".join(f"{figures[name]['compile_seconds']:.1f} s" for name in problems)
    text = [
        "## One step of the filter",
        KERNEL_TEXT,
        table(head, rows),
        f"Compiling takes probsysid {compiling} of processor time. Made by {command('kernel')}.",
    ]
    if figures.get("sizes"):
        cells = [
            [r["problem"], str(r["state"]), str(r["particles"])]
            + [number(r.get(key)) for key in ("ours", "c", "rk4", "probdiffeq", "rodeo")]
            + [number(r["compile_seconds"], 2)]
            for r in figures["sizes"]
        ]
        head = ["problem", "state", "particles", "probsysid, ns", "C, ns", "Runge-Kutta, ns", "probdiffeq, ns"]
        head += ["rodeo, ns", "compiling, s"]
        text += [SIZES_TEXT, table(head, cells)]
    return "\n\n".join(text)


KERNEL_TEXT = """\
Nearly all the time of a run is spent in one operation: advance one particle from one sample to the next, condition it
on the ODE and on the measurement, and return the energy (the negative log likelihood) of the sample. The table gives
its cost per particle, with 1024 particles, 512 steps, first-order linearisation, running diffusion, double precision,
on one core. *duffing* is one coordinate of order 2 with q = 3 (a state of 4) and its position measured; *bouc_wen*
has x of order 2 with q = 3 and z of order 1 with q = 2 (a state of 7) and its acceleration measured.

- **C, hand-written** is the same square-root algebra, particles as SIMD lanes and zeros skipped (`perf/kernel.c`), the
  faster of two sets of compiler flags: what could still be gained with the same algorithm.
- **Runge-Kutta** is one classical step per sample and a Gaussian likelihood, in JAX with the same blocks and options:
  the cost of a likelihood that treats the integration as exact.
- **probdiffeq** and **rodeo** are the two JAX libraries with such filters, vectorised over particles, in a separate
  environment (`.venv-peers`) with XLA's default options. With the data they do the same work as probsysid,
  except that rodeo's diffusion is fixed and probdiffeq gives all coordinates the same q (Bouc-Wen then has a state of
  8).

Repetitions are interleaved, the fastest counts, and all are bound to one core and timed in processor time, which
reduces the influence of other load. Every run checks that the work is the same: the energies of C agree with ours to
1e-9, and so do those of the libraries wherever their state equals ours. Compare ratios: nanoseconds are specific to a
machine."""


SIZES_TEXT = """\
Other numbers of particles and state dimensions. The C kernel is written for two of the latter. The chains consist of
two to five masses with hardening springs, q = 3. Up to twelve components our filter is unrolled scalar by scalar, which
takes long to compile; above, it works on arrays: in our own loops up to about 40, with LAPACK beyond
(docs/decisions.md)."""


def end_to_end(figures: Figures) -> str:
    labels = {
        "probsysid": "probsysid",
        "refined": "probsysid, refined",
        "numpyro": "numpyro, NUTS",
        "blackjax": "blackjax, tempered SMC",
        "particles": "particles, IBIS",
        "pints": "PINTS, adaptive Metropolis",
    }
    head = ["", "seconds", "processor s", "compiling, s", "effective samples: means, spreads, tails"]
    head += ["ms per effective sample", "processor ms", "log evidence off by, its sd"]
    head += ["worst mean, sd", "worst sd ratio", "agrees"]
    rows = []
    for name, own in figures["methods"].items():
        if own is None:
            rows.append([labels[name], *["-"] * (len(head) - 1)])
            continue
        rows.append(
            [
                labels[name],
                *(number(own[k]) for k in ("seconds", "processor_seconds", "compile_seconds")),
                ", ".join(number(own["effective_for"][k], 2) for k in ("mean", "spread", "tail")),
                number(1e3 * own["seconds_per_effective"]),
                number(1e3 * own["processor_seconds_per_effective"]),
                ", ".join(number(own[k], 2) for k in ("log_evidence_off", "log_evidence_sd") if k in own) or "-",
                number(own["mean_shift"], 2),
                number(own["sd_ratio"]),
                "yes" if own["agrees"] else "**no**",
            ]
        )
    ours, best = figures["methods"]["probsysid"], figures["best_peer_over_ours"]
    reference = figures["reference"]
    shorter = "" if figures["samples"] == 2000 else f" with `--samples {figures['samples']}`"
    text = [
        "## A whole identification",
        END_TO_END_TEXT.format_map(figures),
        table(head, rows),
        " ".join([verdict(best, labels), *disagreeing(figures["methods"], labels)]),
        f"The very first run of a model took {number(ours['first_process']['seconds'])} s, most of it compiling; the "
        "first run of the next process, which finds the programs in the cache, "
        f"{number(ours['next_process']['seconds'])} s; a further run in the same process "
        f"{number(ours['seconds'])} s. The reference has a log evidence of "
        f"{reference['log_evidence']:.2f} with an error of {number(reference['log_evidence_error'], 1)}, from "
        f"{reference['effective']:.0f} effective samples.",
        *figures["missing"].values(),
        f"Made by {command('end_to_end')}{shorter} on {figures['cores']} cores.",
    ]
    return "\n\n".join(text)


def verdict(best: Figures, labels: Mapping[str, str]) -> str:
    """Which method costs least per effective sample: one sentence for each kind of time, and one by figure."""
    sentences = []
    for which, words in (
        ("seconds_per_effective", "By the clock"),
        ("processor_seconds_per_effective", "By processor time"),
    ):
        peer, ratio = best[which]["peer"], best[which]["ratio"]
        if peer is None:
            sentences.append(f"{words}, there is no other method to compare with whose posterior agrees.")
        elif ratio >= 1:
            sentences.append(
                f"{words}, an effective sample of the best other method ({labels[peer]}) costs {number(ratio, 2)} "
                "times one of probsysid, refined."
            )
        else:
            sentences.append(
                f"{words}, the best other method ({labels[peer]}) is faster: one of probsysid, refined, costs "
                f"{number(1 / ratio, 2)} times as much."
            )
    single = [
        f"{number(best[figure]['ratio'], 2)} for {figure}s ({labels[best[figure]['peer']]})"
        for figure in ("mean", "spread", "tail")
        if best.get(figure) and best[figure]["peer"]
    ]
    if single:
        sentences.append(
            "For a single figure, the processor time of the best other method over that of probsysid, "
            f"refined, is {', '.join(single)}."
        )
    return " ".join(sentences)


def disagreeing(methods: Figures, labels: Mapping[str, str]) -> list[str]:
    """The cost of methods whose posterior does not agree: they may be fast, and are reported all the same."""
    ours, sentences = methods.get("refined"), []
    for name, own in methods.items():
        if ours and own and name not in ("probsysid", "refined") and not own["agrees"]:
            clock, busy = (
                own[which] / own["effective"] / (ours[which] / ours["effective"])
                for which in ("seconds", "processor_seconds")
            )
            sentences.append(
                f"{labels[name]}, whose posterior does not agree, costs {number(clock, 2)} times as much by the clock "
                f"and {number(busy, 2)} times by processor time."
            )
    return sentences


END_TO_END_TEXT = """\
One simulated record of a Duffing oscillator: {samples} samples, about 20 per period, the force linear between samples,
the position measured with noise. All methods infer seven quantities with the same priors: m, c, k, k3, the noise level
and the two initial values. probsysid runs with its defaults and {particles} particles, starts from the prior, chooses
the number of integration steps automatically, and accounts for the integration error. *Refined* is a run with {few}
particles and {draws} new draws afterwards, `posterior.refined({draws})`: importance sampling from a distribution fitted
to the particles, with quasi-random draws (scrambled Sobol points). The other methods get a likelihood that treats two
Runge-Kutta steps per sample as exact (found beforehand to be sufficient), optimised for speed in JAX or numba, and are
set up with care; the first lines of each script in `perf/methods` say how. In particular NUTS and adaptive Metropolis
start at the true parameters in coordinates whitened by the curvature there: the search for a starting point is not
counted.

The effective sample size is the number of independent draws that would estimate a figure with the same uncertainty: a
quantity's mean, its spread (mean squared deviation), or its tail (the share below the 5 % quantile). For the chains
these are ArviZ' effective sample sizes; for the populations they are measured from the differences between independent
runs (known to about a quarter, and for independent draws at most what the weights allow), and all columns are for one
run. They can exceed the number of draws if draws are negatively correlated: those of NUTS are within a chain, those of
*refined* all together. The cost of one effective sample is for the smallest of the three numbers. Seconds include
warm-up and run, not compilation, with all cores in use: where a method uses one core, one copy runs on each. Agreement
is checked against importance sampling from a Student distribution around the mode, with eight Runge-Kutta steps per
sample: all means within 0.2 posterior standard deviations, all standard deviations within 10 %. Where populations
estimate the evidence, its distance from the reference is the most sensitive test of whether the moves sufficed.

This posterior has one mode and is nearly Gaussian, which favours chains with a good starting point. In addition to the
draws, probsysid's time buys the evidence, no need for a starting point, a posterior after every sample, and the
integration error in the likelihood: its step costs eight times a Runge-Kutta step (below)."""


def scaling(figures: Figures) -> str:
    text = ["## Scaling"]
    sweep, runs = figures.get("sweep"), figures.get("identify")
    if sweep and sweep.get("1"):
        cores = str(figures["cores"])
        one, several = sweep["1"], sweep.get(cores) or sweep["1"]
        for key, title in (("particles", "particles (512 samples)"), ("samples", "samples (1024 particles)")):
            rows = [
                [
                    size,
                    number(1e3 * row["processor_seconds"]),
                    number(1e3 * row["seconds"]),
                    number(1e3 * several[key][size]["seconds"]),
                    number(row["seconds"] / several[key][size]["seconds"], 2),
                ]
                for size, row in one[key].items()
            ]
            head = [title, "processor ms", "ms, one core", f"ms, {cores} cores", "speed-up"]
            text += [table(head, rows), f"Exponent of the processor time: {number(sweep['slopes'].get(key), 2)}."]
        rows = [
            [size, number(row["nanoseconds"]), number(row["compile_processor_seconds"], 2)]
            for size, row in one["state"].items()
        ]
        text.insert(1, SWEEP_TEXT)
        text += [table(["state dimension", "ns per particle and step", "compiling, s"], rows)]
        text += [f"Exponent over the larger half: {number(sweep['slopes'].get('state'), 2)}. {STATE_TEXT}"]
    if runs:
        text += [RUN_TEXT]
        cores, all_cores = figures["cores"], runs["particles_all_cores"]
        rows = [
            [
                size,
                *(number(row[key]) for key in ("sweeps", "processor_seconds", "seconds")),
                number(all_cores[size]["seconds"]),
                number(runs["speed_up"][size], 2),
                number(runs["speed_up_possible"][size], 2),
            ]
            for size, row in runs["particles"].items()
        ]
        head = ["particles", "sweeps", "processor s", "seconds, one core", f"seconds, {cores} cores"]
        head += ["speed-up", "possible"]
        text += [table(head, rows), f"Exponent of the processor time: {number(runs['slopes'].get('particles'), 2)}."]
        for key, title in (("samples", "samples"), ("parameters", "quantities")):
            rows = [
                [size, number(row["sweeps"]), number(row["processor_seconds"]), number(row["seconds"])]
                for size, row in runs[key].items()
            ]
            text += [table([title, "sweeps", "processor s", "seconds, one core"], rows)]
            text += [f"Exponent of the processor time: {number(runs['slopes'].get(key), 2)}."]
    text += [afterwards(figures.get("afterwards"))]
    text += [memory(figures.get("memory")), online_memory(figures.get("online"))]
    return "\n\n".join([part for part in text if part] + [f"Made by {command('scaling')}."])


SWEEP_TEXT = """\
One sweep of the filter over a record, without compilation. On several cores the particles are distributed; the cores
exchange nothing during a sweep."""
STATE_TEXT = """\
The state is that of a chain of masses with nonlinear springs, (q + 1) components per mass. Up to
12 components the factor is dense, and its algebra grows with the cube of their number; above, it has one block per
coordinate (`BlockEKF1`), and the cost is linear. The dense factor took 2010 ns at 16 components, 4590 at 20, 23 700 at
40 and 235 000 at 80."""
RUN_TEXT = """\
Whole runs, without compilation, on the record of the first section (500 samples, 2000 where particles vary; 512
particles and 7 quantities unless stated otherwise; two steps per sample). Sweeps are passes of all particles over the
whole record: the distance between rejuvenations increases, so that their number grows with the logarithm of the
record's length, and with the number of quantities. The work outside the filter (below) is not distributed over cores.
*Default* is a run of `identify` with its default settings, with automatic steps. *Possible* is the speed-up when each
core does the same run by itself, at the same time: on a shared machine less than the number of cores."""


def afterwards(figures: Figures | None) -> str:
    if not figures:
        return ""
    grown = figures["slopes"]
    names = [name for name in figures if name != "slopes"]
    rows = [[size, *(number(1e3 * figures[name][size]["seconds"]) for name in names)] for size in figures[names[0]]]
    exponents = ", ".join(f"{name} {number(grown[name], 2)}" for name in names)
    head = ["samples", *(f"{name}, ms" for name in names)]
    return "\n\n".join([AFTER_TEXT, table(head, rows), f"Exponents of the processor time: {exponents}."])


AFTER_TEXT = """\
Operations on a posterior, without compilation: smoothed states and paths of 20 particles, free runs of all 256, 1024
refined draws, and the log likelihoods of all samples for ArviZ (two steps per sample, all cores)."""


def memory(figures: Figures | None) -> str:
    if not figures:
        return ""
    peak, limit = max(figures["peak_bytes"].values()), figures["limit_bytes"]
    steps = ", ".join(f"{name.replace('_', ' ')} {value / 1e6:.0f}" for name, value in figures["peak_bytes"].items())
    return (
        f"**Memory.** With {figures['particles']} particles on {figures['samples']} samples of the Silverbox record "
        f"the process held at most {peak / 1e6:.0f} MB ({'under' if peak < limit else 'over'} the {limit / 1e9:.0f} GB "
        f"that are its limit). Peak after each stage, in MB: {steps}."
    )


def online_memory(figures: Figures | None) -> str:
    if not figures:
        return ""
    rows = [
        [size, number(row["file_bytes"] / 1e6), number(row["resident_bytes"] / 1e6)]
        for size, row in figures["samples"].items()
    ]
    grown = figures["bytes_per_sample"]
    return (
        f"**Online.** An `Identifier` with {figures['particles']} particles keeps its samples, which rejuvenation "
        f"needs again, and a short history: {grown['file_bytes']:.0f} bytes per sample in its file, "
        f"{grown['resident_bytes']:.0f} in memory.\n\n" + table(["samples", "file, MB", "process, MB"], rows)
    )


def sampler(figures: Figures) -> str:
    light = figures["light"]
    return (
        "## Outside the filter\n\n"
        "The Silverbox case, as `probsysid benchmark silverbox` runs it, takes "
        f"{number(figures['processor_seconds'])} s of processor time ({figures['particles']} particles, "
        f"{number(figures['sweeps'])} sweeps, {figures['rejuvenations']} rejuvenations, {figures['moves']} moves) and "
        f"spends **{100 * figures['share_outside']:.0f} %** of it outside the filter: weights, resampling, proposals. "
        "With the cheapest sufficient filter (q = 3, two steps per sample, not chosen while sampling) and "
        f"{light['particles']} particles it is {100 * light['share_outside']:.0f} % of "
        f"{number(light['processor_seconds'])} s: most of that is spent on the first 25 samples, where particles from "
        f"the prior are moved often, over few data. Made by {command('sampler')}."
    )


def online(figures: Figures) -> str:
    head = ["case", "update, median ms", "99 %", "with rejuvenation, median ms", "99 %", "real-time factor"]
    rows = []
    for name, own in figures.items():
        plain, moved = own["update"], own["update_with_rejuvenation"]
        cells = [
            *(number(plain.get(k)) for k in ("p50_ms", "p99_ms")),
            *(number(moved.get(k)) for k in ("p50_ms", "p99_ms")),
        ]
        rows.append([name, *cells, number(own["real_time_factor"])])
    return "\n\n".join(
        [
            "## Online",
            "Duration of `Identifier.update` for one sample of each benchmark, sample by sample; the real-time factor "
            "is the time of all updates over the duration of the record, below 1 where it keeps up.",
            table(head, rows),
            f"Made by {command('online')}.",
        ]
    )


def pilot(figures: Figures) -> str:
    head = ["problem, data set", "defaults, s", "steps", "without a pilot, s", "Runge-Kutta alone, s", "steps"]
    head += ["defaults over Runge-Kutta"]
    rows = [
        [
            f"{row['problem']}, {row['set']}",
            number(row["default_seconds"]),
            str(row["steps"]),
            number(row["without_pilot_seconds"]),
            number(row["runge_kutta_seconds"]),
            str(row["runge_kutta_steps"]),
            number(row["ratio"], 2),
        ]
        for row in figures["rows"]
    ]
    return "\n\n".join(["## What certainty costs", PILOT_TEXT, table(head, rows), f"Made by {command('pilot')}."])


PILOT_TEXT = """\
`identify` with its defaults lets particles follow the data with Runge-Kutta steps, the *pilot*, and takes the last of
them over to the probabilistic solver's posterior. The table compares it with the same sampler on a Runge-Kutta
likelihood that counts as exact, with the fewest steps per sample that suffice, known beforehand; that run ends at the
last sample, without any check. So the last column is the price of everything else: finding the number of steps, the
solver's posterior and evidence, the verdicts on integration and sampling, one-step errors, and the search for lost
modes. The problems are those of the [honesty study](validation.md): 768, 1024, 200 and 60 samples, 2 to 7 unknowns,
1024 particles. Processor seconds on one core, without compiling, the fastest of three repetitions."""


SECTIONS: dict[str, Callable[[Figures], str]] = {
    "end_to_end": end_to_end,
    "pilot": pilot,
    "kernel": kernel,
    "scaling": scaling,
    "sampler": sampler,
    "online": online,
}

INTRODUCTION = """\
# Speed

A run costs (particles) x (samples) x (steps per sample) x (sweeps over the data, some tens) filter steps, plus seconds
to tens of seconds for compiling a model the first time; compiled programs are cached for later processes. This page
gives the cost of a step, the cost of a whole identification compared with other samplers, and how both scale.

`make perf` measures all figures again. Every ratio comes from one run on one machine; absolute times depend on it."""


def page(figures: Mapping[str, Figures | None], machine: Figures, note: str = "") -> str:
    parts = [INTRODUCTION, f"{made(figures, machine)} {note}".strip()]
    for name, section in SECTIONS.items():
        own = figures.get(name)
        parts.append(section(own) if own else f"No figures of `perf/{SCRIPTS[name][0]}` were available.")
    return "\n\n".join(parts) + "\n"


def with_section(page: str, section: str) -> str:
    """A page with one section replaced, or added after the first one."""
    heading = section.partition("\n")[0]
    first, *others = page.split("\n## ")
    parts = [first.rstrip(), *(f"## {other.rstrip()}" for other in others)]
    known = [k for k, part in enumerate(parts) if part.partition("\n")[0] == heading]
    if known:
        parts[known[0]] = section
    else:
        parts.insert(2, section)
    return "\n\n".join(parts) + "\n"


def made(figures: Mapping[str, Figures | None], machine: Figures) -> str:
    versions: dict[str, str] = {}
    versions |= ((figures.get("kernel") or {}).get("environment") or {}).get("versions", {})
    versions |= (figures.get("end_to_end") or {}).get("versions", {})
    listed = ", ".join(f"{name} {value}" for name, value in versions.items() if value)
    return f"{machine['date']}, {machine['cpu']}, {machine['cores']} cores." + (f" {listed}." if listed else "")


def machine() -> dict[str, Any]:
    """The class of the machine, not its name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        cpu = platform.processor() or platform.machine()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"cpu": cpu, "cores": cores, "date": time.strftime("%Y-%m-%d")}


def run(folder: Path) -> None:
    """Run every script in turn; one that fails leaves no file."""
    for name, (script, *options) in SCRIPTS.items():
        if not (HERE / script).exists() or (name in NEED_DATA and "PROBSYSID_DATA" not in os.environ):
            print(f"{name} is left out: it needs the data in the folder named by PROBSYSID_DATA.")
            continue
        target = folder / f"{name}.json"
        target.unlink(missing_ok=True)
        if subprocess.run([sys.executable, str(HERE / script), *options, "--json", str(target)]).returncode:
            print(f"{name} failed; its section is left out.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", action="store_true", help="run every script first")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "perf")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "performance.md")
    parser.add_argument("--note", default="", help="a sentence about these figures, such as what else the machine did")
    parser.add_argument("--only", choices=SECTIONS, help="replace this section of the page, and nothing else")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    if given.only:
        figures = json.loads((given.folder / f"{given.only}.json").read_text())
        section = "\n\n".join([SECTIONS[given.only](figures), f"{made({}, machine())} {given.note}".strip()])
        given.out.write_text(with_section(given.out.read_text(), section))
        return
    if given.run:
        run(given.folder)
    files = {name: given.folder / f"{name}.json" for name in SECTIONS}
    figures = {name: json.loads(path.read_text()) if path.exists() else None for name, path in files.items()}
    given.out.write_text(page(figures, machine(), given.note))
    print(f"Written: {given.out}")


if __name__ == "__main__":
    main()
