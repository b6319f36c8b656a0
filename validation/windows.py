"""`python -m validation.windows [SAMPLES ...]`: streams that do not keep all samples; docs/validation-windows.md.

A Duffing oscillator's stream with and without a window: how far the posterior is from the one that keeps all samples,
and what samples cost, by default for 2 * 10^4 samples with several windows and for 10^6 with one.
"""

import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

import probsysid as ps
from probsysid import dist
from validation import duffing

PAGE = Path(__file__).resolve().parents[1] / "docs" / "validation-windows.md"
TRUTH = {"m": 1.0, "c": 0.3, "k": 2.0, "k3": 1.0}
PRIORS = {name: dist.LogNormal(np.log(value), 0.5) for name, value in TRUTH.items()}
NOISE, BLOCK, PARTICLES = 0.05, 100, 512
WINDOWS: tuple[int | None, ...] = (None, 4096, 1024, 256)
LONG = 1_000_000

HEAD = """# Validation: streams with a window

Written by `python -m validation.windows`: a Duffing oscillator under a multisine (`validation/duffing.py`), four
constants, noise level and initial state unknown, {particles} particles, blocks of {block} samples. `window` is the
option of `ps.Identifier`: what samples before the last one or two windows have said is carried on as a quadratic
function. *Difference*: of means in posterior standard deviations, of standard deviations as a ratio, of the log
evidence with the standard error of both, each against the stream that keeps all samples and has the same seed. Monte
Carlo errors are included: two streams that keep all samples and differ in the seed are in the second row. *Latest
blocks*: the last twentieth of the stream, processor seconds for a thousand samples; *slowest* is one block.

| samples | window | kept | worst mean, sd | sd ratios | log evidence | CPU s | latest blocks | slowest block |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""

FOOT = """
The stream of {long} samples is there for cost and memory; nothing is compared.
"""


class Streamed(NamedTuple):
    posterior: ps.Posterior
    kept: int
    processor: float
    latest: float
    slowest: float


def record(samples: int) -> ps.Record:
    return duffing.measured(duffing.multisine(samples, 1), TRUTH, NOISE, np.array([0.3, 0.0]), np.random.default_rng(2))


def follow(data: ps.Record, window: int | None, seed: int = 0) -> Streamed:
    online = ps.Identifier(
        duffing.MODEL,
        PRIORS,
        {"position": dist.LogNormal(np.log(0.1), 1.0)},
        {"x": dist.Normal(0.0, 1.0), "dx": dist.Normal(0.0, 1.0)},
        duffing.DT,
        sampler=ps.Sampler(particles=PARTICLES),
        seed=seed,
        window=window,
    )
    force, position = (np.asarray(channel) for channel in (data.inputs["force"], data.outputs["position"]))
    began, times = time.process_time(), []
    for first in range(0, data.samples, BLOCK):
        block = slice(first, first + BLOCK)
        start = time.process_time()
        online.update({"force": force[block]}, {"position": position[block]})
        times.append(time.process_time() - start)
    processor = time.process_time() - began
    latest = times[-max(len(times) // 20, 1) :]
    kept = online.samples - online.first_kept
    return Streamed(online.posterior, kept, processor, 1000 * float(np.mean(latest)) / BLOCK, max(times))


def row(samples: int, window: str, found: Streamed, full: Streamed | None) -> str:
    cost = f"{found.processor:.0f} | {found.latest:.3f} | {found.slowest:.2f} |"
    if full is None:
        return f"| {samples} | {window} | {found.kept} |  |  |  | {cost}"
    names = [*TRUTH, "noise.position"]
    one, other = found.posterior, full.posterior
    worst = max(abs(one.mean(n) - other.mean(n)) / other.sd(n) for n in names)
    ratios = [one.sd(n) / other.sd(n) for n in names]
    error = np.hypot(one.log_evidence_error, other.log_evidence_error)
    evidence = f"{one.log_evidence - other.log_evidence:+.2f} ± {error:.2f}"
    compared = f"{worst:.2f} | {min(ratios):.2f} to {max(ratios):.2f} | {evidence}"
    return f"| {samples} | {window} | {found.kept} | {compared} | {cost}"


def main(samples: int = 20_000, long: int = LONG) -> None:
    data, lines = record(samples), []
    follow(data[:2000], 256)  # compiles
    full = follow(data, None)
    lines.append(row(samples, "all samples", full, None))
    lines.append(row(samples, "all samples, another seed", follow(data, None, seed=1), full))
    lines += [row(samples, str(w), follow(data, w), full) for w in WINDOWS if w is not None]
    lines.append(row(long, "1024", follow(record(long), 1024), None))
    for line in lines:
        print(line)
    head, foot = HEAD.format(particles=PARTICLES, block=BLOCK), FOOT.format(long=long)
    PAGE.write_text(head + "\n".join(lines) + "\n" + foot)


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))
