"""`python -m validation [STUDY ...] [--again]`: run studies, all that have no result by default, and write the page."""

import argparse
import json
import os
import platform
import time
from pathlib import Path
from typing import Any

import probsysid as ps
from validation import bias, calibration, kills, lotka_volterra, nuts, page

RESULTS = Path(__file__).parent / "results"


def _calibration(folder: Path) -> dict[str, Any]:
    result = calibration.run(folder, "sampled")
    calibration.plot(result, page.FIGURE)
    return result


STUDIES = {
    "kills": kills.run,
    "nuts": nuts.run,
    "lotka-volterra": lotka_volterra.run,
    "bias": bias.run,
    "calibration": _calibration,
    "calibration-marginalised": lambda folder: calibration.run(folder, "marginalised", sets=160),
}


def machine() -> str:
    """Its class, not its name."""
    return f"{os.cpu_count()} cores {platform.machine()}, {platform.system()}, Python {platform.python_version()}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m validation", description=__doc__)
    parser.add_argument("study", nargs="*", choices=[*STUDIES, []], help="default: all")
    parser.add_argument("--again", action="store_true", help="run also what has a result")
    arguments = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    for name in arguments.study or STUDIES:
        path = RESULTS / f"{name}.json"
        if path.exists() and not arguments.again:
            continue
        began = time.time()
        result = STUDIES[name](RESULTS)
        facts = {
            "result": result,
            "date": time.strftime("%Y-%m-%d"),
            "version": ps.__version__,
            "machine": machine(),
            "seconds": time.time() - began,
        }
        path.write_text(json.dumps(facts, indent=1))
        page.write(page.read(RESULTS))
    page.write(page.read(RESULTS))
    print(f"results are in {page.PAGE}")


if __name__ == "__main__":
    main()
