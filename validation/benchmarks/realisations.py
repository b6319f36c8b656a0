"""Dependence of the Bouc-Wen limit on the phases and the noise of the simulated training record.

python -m validation.benchmarks.realisations FILE.json [--count N]
"""

import argparse
import json
from pathlib import Path

import numpy as np

from probsysid.benchmarks import bouc_wen
from probsysid.benchmarks.case import LeastSquaresFit, ScoringProtocol, free_run
from probsysid.benchmarks.laplace_limit import laplace_draws, limit

DRAWS = 16


def realisation(seed: int, protocols: list[ScoringProtocol]) -> dict[str, float]:
    """The limit of each test, and the largest distance of a parameter from the truth in sd, for one training record."""
    record = bouc_wen.training_record(seed)
    fit = LeastSquaresFit(
        f"{seed}", np.asarray(record.outputs["acceleration"]), free_run(bouc_wen.model, record, steps=4)
    )
    draws = laplace_draws(fit, bouc_wen.priors(), bouc_wen.TRUTH, DRAWS)
    distances = [abs(np.mean(draws[name]) - value) / np.std(draws[name]) for name, value in bouc_wen.TRUTH.items()]
    scores = {protocol.name: limit(protocol, draws).mean for protocol in protocols}
    return {"seed": seed, **scores, "farthest": float(max(distances))}


def main() -> None:
    """Write a list with one entry per realisation."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--count", type=int, default=24)
    options = parser.parse_args()
    protocols = list(bouc_wen.study().protocols)
    rows = []
    for seed in range(options.count):
        rows.append(realisation(seed, protocols))
        print(rows[-1], flush=True)
    options.file.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
