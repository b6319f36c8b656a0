"""The Silverbox, replayed at true speed while the page is open: does the posterior keep up?

python -m validation.live_silverbox [--seconds 30] [--particles 128]

Samples of the multisine part, 610 per second, Duffing oscillator with a force offset; inputs are linear between
samples, since band-limited ones would need the future.  Run it on a machine with nothing else to do.  The page is open
in chromium if it is there.  Needs the data (PROBSYSID_DATA).
"""

import argparse
import json
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np

import probsysid as ps
from probsysid import dist
from probsysid.benchmarks import silverbox
from probsysid.live.channels import Channels
from probsysid.live.dashboard.server import Page
from probsysid.live.session import Session
from probsysid.live.sources import Replay
from tests.report.browser import available, browser


def follow(
    record: ps.Record, particles: int, speed: float, shown: bool, picture: Path | None = None
) -> dict[str, object]:
    """One replay; `shown` is with the page open."""
    arguments = {
        "model": silverbox.model("duffing-offset"),
        "priors": silverbox.priors("duffing-offset"),
        "noise": {"position": dist.LogNormal(-8, 1)},
        "initial": {"x": dist.Normal(0, 0.1), "dx": dist.Normal(0, 30)},
        "dt": silverbox.DT,
        "intersample": "linear",
        "solver": ps.Solver(),
        "sampler": ps.Sampler(particles=particles),
    }
    channels = Channels.plain(["force"], ["position"])
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        table = np.column_stack([record.time - record.time[0], record.inputs["force"], record.outputs["position"]])
        path = Path(name) / "record.csv"
        np.savetxt(path, table, delimiter=",", header="t,force,position", comments="", fmt="%.9g")
        session = Session({"silverbox": arguments}, channels, ps.LiveOptions(), folder=Path(name) / "run")
        page = Page(session.engine, "Silverbox") if shown else None
        if page is not None and available():
            window = stack.enter_context(browser())
            window.resize(1280, 900)
            window.post("/url", {"url": page.url})
            time.sleep(3)
        began, busy = time.monotonic(), time.process_time()
        session.start(Replay(path, channels, silverbox.DT, speed=speed))
        while not session.over:
            time.sleep(0.05)
        seconds, processor = time.monotonic() - began, time.process_time() - busy
        if page is not None and available() and picture is not None:
            window.screenshot(picture)
        lags = np.array(session.engine.lags)
        numbers = session.engine.tracks[0].numbers()
        alarms = [alarm.text for alarm in session.engine.alarms]
        session.end(finish=False)
        if page is not None:
            page.close()
    duration = record.samples * silverbox.DT
    quantiles = {f"lag_{q}": round(float(np.quantile(lags, float(q))), 3) for q in ("0.5", "0.95", "0.99", "1.0")}
    return {
        "samples": record.samples,
        "seconds": round(duration, 1),
        "particles": particles,
        "done_after": round(seconds, 1),
        "processor_seconds": round(processor, 1),
        **quantiles,
        "alarms": alarms[:2],
        "k": numbers["parameters"]["k"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--particles", type=int, default=128)
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    first = silverbox.TRAIN.start
    record = silverbox.whole_record()[first : first + round(options.seconds / silverbox.DT)]
    follow(record[:300], options.particles, 0.0, shown=False)  # compiles what the others need
    print(json.dumps(follow(record, options.particles, 1.0, shown=True, picture=options.picture)))


if __name__ == "__main__":
    main()
