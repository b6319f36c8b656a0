"""Run a case study: identify, score, compare with the limit, and save the results."""

import os
import platform
import sys
import time as clock
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Float

from probsysid._internal.errors import said_later
from probsysid._internal.validation import choose
from probsysid._version import __version__
from probsysid.benchmarks.case import CaseStudy, Method, ScoringProtocol
from probsysid.benchmarks.evolution import Evolution
from probsysid.benchmarks.laplace_limit import limits
from probsysid.benchmarks.result import Context, Failure, Limit, RunResult, Score, Summary, read_context, read_results
from probsysid.inference.identify import identify
from probsysid.parallel.executor import Executor
from probsysid.posterior.draws import draw_indices
from probsysid.posterior.particle_values import noise_levels, parameters_of, process_noise_of
from probsysid.posterior.posterior import Posterior
from probsysid.posterior.predict import Band
from probsysid.posterior.simulate import Scores

REPORT = "report.html"
FAILURE = "failure.json"

NEGLIGIBLE = 1e-3
"""Fraction of the mean weight below which a particle is not scored: it belongs to an island without weight."""

BAND_DRAWS = 256
"""Particles from which bands of predicted measurements are made ..."""
BAND_SEED = 0
"""... with parameters that vary between records drawn by this seed."""


@dataclass(frozen=True, eq=False)
class Finished:
    """A run whose results are known, new or read from disk."""

    study: CaseStudy
    result: RunResult
    context: Context


@dataclass(frozen=True, eq=False)
class Outcome:
    """A study that has been run, with its posterior."""

    study: CaseStudy
    method: str
    seed: int
    posterior: Posterior
    evolution: Evolution
    scores: Mapping[str, Scores]
    bands: Mapping[str, Band]
    """Predicted measurements over the scored part of each protocol."""
    limits: Mapping[str, Scores]

    def draws(self, count: int) -> dict[str, Float[np.ndarray, " draw"]]:
        """Parameters of equally weighted draws."""
        return _parameters(self.posterior, draw_indices(self.posterior.weights, count))

    @property
    def result(self) -> RunResult:
        """The results for JSON."""
        posterior = self.posterior
        error = posterior.log_evidence_error
        return RunResult(
            case=self.study.case,
            model=self.study.variant,
            method=self.method,
            particles=len(posterior.weights),
            seed=self.seed,
            seconds=posterior.settings.seconds,
            sweeps=posterior.settings.sweeps,
            log_evidence=posterior.log_evidence,
            trusted=None if posterior.sampling is None else posterior.sampling.trusted,
            log_evidence_error=error if np.isfinite(error) else None,
            parameters={name: _summary(posterior, name) for name in posterior.columns},
            test={
                protocol.name: Score(
                    rmse_min=self.scores[protocol.name].min,
                    rmse_mean=self.scores[protocol.name].mean,
                    rmse_max=self.scores[protocol.name].max,
                    fit_percent=protocol.fit_percent(self.scores[protocol.name].mean),
                    baseline=protocol.baseline_rmse,
                    **self._honesty(protocol),
                )
                for protocol in self.study.protocols
            },
        )

    def _honesty(self, protocol: ScoringProtocol) -> dict[str, float]:
        """What the bands are worth; nothing for a prediction without a model, which has none."""
        band, measured = self.bands[protocol.name], protocol.measured
        if not np.all(band.sd > 0):
            return {}
        return {"coverage": band.coverage(measured), "standardised_rms": band.standardised_rms(measured)}

    @property
    def context(self) -> Context:
        """Command, date, version, machine, settings and limits."""
        return Context(
            command=" ".join(["probsysid", *sys.argv[1:]]),
            date=clock.strftime("%Y-%m-%d"),
            version=__version__,
            machine=machine(),
            record_samples=self.study.record.samples,
            settings={"solver": self.posterior.settings.solver, "sampler": self.posterior.settings.sampler},
            limits={
                name: Limit(
                    about=self.study.fits[name].about, rmse_min=score.min, rmse_mean=score.mean, rmse_max=score.max
                )
                for name, score in self.limits.items()
            },
        )


def run(
    study: CaseStudy,
    *,
    method: str = "default",
    particles: int | None = None,
    seed: int = 0,
    progress: bool = False,
    executor: Executor | None = None,
) -> Outcome:
    """Identify and score."""
    settings: Method = choose("method", study.methods.get(method, method), study.methods)
    sampler = settings.sampler if particles is None else replace(settings.sampler, particles=particles)
    evolution = Evolution()
    with said_later():
        posterior = identify(
            study.model,
            study.record,
            study.priors,
            settings.noise,
            study.initial if settings.initial is None else settings.initial,
            solver=settings.solver,
            sampler=sampler,
            process_noise=settings.process_noise,
            varies=settings.varies,
            seed=seed,
            progress=progress,
            notice=evolution.note,
            executor=executor,
        )
    counted = np.flatnonzero(posterior.weights > NEGLIGIBLE / len(posterior.weights))
    parameters = _parameters(posterior, counted)
    scores = {p.name: p.rmse(parameters, posterior.weights[counted]) for p in study.protocols}
    return Outcome(study, method, seed, posterior, evolution, scores, _bands(study, posterior), limits(study))


def save(outcome: Outcome, folder: Path) -> None:
    """Write the posterior, the results and their context; figures and the report are made from these."""
    folder.mkdir(parents=True, exist_ok=True)
    outcome.posterior.save(folder / "posterior.nc")
    (folder / "result.json").write_text(outcome.result.model_dump_json(indent=2) + "\n")
    (folder / "context.json").write_text(outcome.context.model_dump_json(indent=2) + "\n")


def save_failure(failure: Failure, folder: Path) -> None:
    """Write a failure, in place of the results of an earlier run."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in (REPORT, "result.json"):
        (folder / name).unlink(missing_ok=True)
    (folder / FAILURE).write_text(failure.model_dump_json(indent=2) + "\n")


def finished(study: CaseStudy, folder: Path, method: str, particles: int | None, seed: int) -> Finished | None:
    """The results of an earlier run with these options, if its folder is complete: the report is written last."""
    if not (folder / REPORT).is_file():
        return None
    result = read_results(folder / "result.json")[0]
    context = read_context(folder / "context.json")
    wanted = study.methods[method].sampler.particles if particles is None else particles
    same = (result.method, result.particles, result.seed, context.version) == (method, wanted, seed, __version__)
    return Finished(study, result, context) if same else None


def machine() -> str:
    """A description of the machine."""
    return f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"


def _parameters(
    posterior: Posterior, chosen: np.ndarray, record: int | None = 0
) -> dict[str, Float[np.ndarray, " draw"]]:
    """Parameters on the training record, or on a new one (None), and everything else that was inferred: a protocol may
    estimate its initial state with the noise level."""
    return {name: value[chosen] for name, value in posterior.values.items()} | parameters_of(
        posterior, chosen, record, BAND_SEED
    )


def _bands(study: CaseStudy, posterior: Posterior) -> dict[str, Band]:
    """Predicted measurements on each protocol: parameters that vary are drawn anew, with process noise, and with noise
    where the output has any."""
    chosen = draw_indices(posterior.weights, min(BAND_DRAWS, len(posterior.weights)))
    parameters, forces = _parameters(posterior, chosen, None), process_noise_of(posterior, chosen)
    levels = noise_levels(posterior, chosen)
    exact = np.zeros(len(chosen))
    return {p.name: p.band(parameters, forces, levels.get(p.output, exact)) for p in study.protocols}


def _summary(posterior: Posterior, name: str) -> Summary:
    low, high = posterior.quantile(name, [0.05, 0.95])
    return Summary(mean=posterior.mean(name), sd=posterior.sd(name), q05=low, q95=high)
