"""Run the studies and write their page: python -m validation [--sets N]."""

import argparse
import platform
import time
from pathlib import Path
from typing import Any

import probsysid as ps
from validation import calibration

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "validation" / "results"
PAGE = ROOT / "docs" / "validation-sampler.md"
FIGURES = ROOT / "docs" / "figures"


def section(initial: str, result: dict[str, Any]) -> str:
    rows = "\n".join(
        f"| {name} | {result['chi-square'][name]:.3f} | {result['Kolmogorov-Smirnov'][name]:.3f} | "
        + (f"{result['rms z'][name]:.2f} |" if name in result["rms z"] else "|")
        for name in result["chi-square"]
    )
    return f"""## Simulation-based calibration, initial state {initial}

{result["sets"]} data sets of {calibration.SAMPLES} samples, {calibration.SAMPLER.particles} particles in
{calibration.SAMPLER.islands} islands. Where everything is right the p-values are uniform and rms z is about 1.
Mean acceptance {result["acceptance"]:.0%}, {result["sweeps"]:.0f} sweeps a run, {result["lost"]} particles lost.

| quantity | chi-square p | Kolmogorov-Smirnov p | rms z |
|---|---|---|---|
{rows}

![rank histograms](figures/sbc-{initial}.png)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=calibration.SETS, help="data sets for each study")
    sets = parser.parse_args().sets
    parts = []
    for initial in calibration.INITIALS:
        result = calibration.run(RESULTS, initial, sets)
        calibration.plot(result, FIGURES / f"sbc-{initial}.png")
        parts.append(section(initial, result))
    made = (
        f"Made on {time.strftime('%Y-%m-%d')} by `python -m validation --sets {sets}` with probsysid {ps.__version__}"
    )
    head = f"# The sampler, validated\n\n{made} on {platform.machine()}, 2 cores.\n\n"
    PAGE.write_text(head + "\n".join(parts))
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
