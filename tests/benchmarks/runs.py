"""A small case study, results without a run, and a stand-in for runs that takes no time."""

from pathlib import Path

import numpy as np
from rich.console import Console

import probsysid as ps
from probsysid.benchmarks.batch import BatchOptions
from probsysid.benchmarks.case import CaseStudy, FigureSettings, LeastSquaresFit, Method, ScoringProtocol, free_run
from probsysid.benchmarks.result import Context, RunResult
from probsysid.benchmarks.run import Finished
from tests import duffing

SAMPLES = 100


def small_study() -> CaseStudy:
    """A Duffing oscillator in place of a benchmark."""
    record = duffing.measure(SAMPLES)
    options = duffing.options()
    training = free_run(duffing.model, record, steps=2)
    measured = np.asarray(record.outputs["position"])
    view = FigureSettings(
        states=("x", "dx"),
        samples=SAMPLES,
        zoom=(float(record.time[40]), float(record.time[60])),
        window=(SAMPLES // 4, SAMPLES),
        measured={"x": "position"},
        units={"x": "m"},
    )
    sampler = ps.Sampler(particles=64)
    return CaseStudy(
        case="bouc-wen",
        variant="bouc-wen",
        model=duffing.model,
        record=record,
        priors=options["priors"],
        initial=options["initial"],
        methods={"default": Method(options["solver"], sampler)},
        protocols=(ScoringProtocol("simulated", record, training),),
        equation="m x'' + c x' + k x + k3 x^3 = u",
        fits={"simulated": LeastSquaresFit("the same record", measured, training)},
        guess=duffing.TRUTH,
        view=view,
        training=training,
        truth=duffing.TRUTH,
    )


def result(**changes: object) -> RunResult:
    """A result of invented figures."""
    summary = {"mean": 1.0, "sd": 0.1, "q05": 0.9, "q95": 1.1}
    score = {"rmse_min": 1.0, "rmse_mean": 2.0, "rmse_max": 3.0, "fit_percent": 90.0, "baseline": 9.0}
    start = {"case": "emps", "model": "friction", "method": "default", "particles": 8, "seed": 0, "seconds": 1.0}
    rest = {"sweeps": 2.0, "log_evidence": -1.0, "log_evidence_error": None}
    return RunResult.model_validate({**start, **rest, "parameters": {"M": summary}, "test": {"t": score}, **changes})


def context(**changes: object) -> Context:
    """A context of invented facts."""
    start = {"command": "", "date": "", "version": ps.__version__, "machine": "", "record_samples": 1}
    return Context.model_validate({**start, "settings": {}, "limits": {}, **changes})


class Runs:
    """Replaces the runs of a batch: records which were requested, and fails those in `failing`."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.failing: dict[str, BaseException] = {}

    def __call__(
        self, study: CaseStudy, method: str, options: BatchOptions, folder: Path, console: Console
    ) -> Finished:
        self.asked.append(folder.name)
        if folder.name in self.failing:
            raise self.failing[folder.name]
        names = {"case": study.case, "model": study.variant, "method": method, "seed": options.seed}
        done = result(**names, particles=options.particles or 64, test={"simulated": result().test["t"]})
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "result.json").write_text(done.model_dump_json())
        (folder / "context.json").write_text(context().model_dump_json())
        (folder / "report.html").write_text("")
        return Finished(study, done, context())
