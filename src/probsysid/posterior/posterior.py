"""The posterior: weighted particles, and methods that say what they mean.

The class is thin: each method is a function of the module that its docstring or import names.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import xarray as xr
from jaxtyping import Float

from probsysid._internal.notebook import html
from probsysid._internal.statistics import ess_of_weights, log_mean_exp
from probsysid.data.record import Record
from probsysid.model.model import Model
from probsysid.parallel.default import default_executor
from probsysid.posterior import export, predict, storage, summaries, unknown_inputs
from probsysid.posterior.cards import posterior_card
from probsysid.posterior.diagnostics import checks
from probsysid.posterior.diagnostics.identifiability import find_identifiability
from probsysid.posterior.diagnostics.mode_check import MAPEstimate
from probsysid.posterior.diagnostics.residuals import Residuals
from probsysid.posterior.diagnostics.sampling_check import SamplingCheck
from probsysid.posterior.diagnostics.solver_check import SolverCheck
from probsysid.posterior.draws import scalars
from probsysid.posterior.initial_states import Initial
from probsysid.posterior.settings import RunSettings, Setup
from probsysid.posterior.simulate import Simulation
from probsysid.posterior.states import States, posterior_states
from probsysid.smc.evidence import evidence_error
from probsysid.smc.history import History

if TYPE_CHECKING:
    import arviz as az

    from probsysid.report.plots import PosteriorPlots


@dataclass(frozen=True, eq=False)
class Posterior:
    """The posterior of everything that had a prior.

    Attributes:
        values: each quantity by name, with the particle axis last.
        weights: of the particles; they sum to one.
        columns: every scalar quantity by name; entries of arrays as `name[0]`, ...
        log_evidence: log of the probability density of the data under the model and its priors.
        log_evidence_error: its standard error, from the spread over populations; NaN where there is only one.
        ess: effective number of particles.
        verdict: whether the integration was accurate enough, in one sentence; empty where it was not checked.
        sampling_verdict: whether the sampling is to be trusted, in one sentence; empty for a stream.
        map: the best mode that the run has found, with its `values`, `log_density` and Laplace's `log_evidence`; None
            where no search was made or it came to no end (`probsysid.find_map` searches on).
        identifiability: what the data do not identify; its `sentences` name formulas of which alone something is known.
        doubts: sentences that speak against the model or the given noise; empty if nothing does.
        history: effective sample size and evidence after every sample, rejuvenations, predictive densities.
        settings: how the posterior was computed.
    """

    values: dict[str, Float[np.ndarray, "*_shape particle"]]
    theta: Float[np.ndarray, "dimension particle"]
    """Particles in unconstrained coordinates."""
    weights: Float[np.ndarray, " particle"]
    evidence_by_population: Float[np.ndarray, " population"]
    """Log evidence of each population that resamples by itself: an island, or a half of one."""
    history: History
    settings: RunSettings
    setup: Setup = Setup()
    """The problem and the solver."""
    records: tuple[Record, ...] = ()
    shared_error: float = 0.0
    """Standard error of the log evidence that all populations share, since one was refilled from the others."""
    errors: tuple[Float[np.ndarray, "_sample output"], ...] = ()
    """One-step prediction errors in units of their standard deviation, for each record; empty for a stream."""
    doubts: tuple[str, ...] = ()
    check: SolverCheck | None = None
    """What a finer integration would change; None where it was not checked."""
    sampling: SamplingCheck | None = None
    """How well the populations agree, and whether fresh draws confirm them; None for a stream."""
    variance_shares: Mapping[str, Mapping[str, float]] | None = None
    """Share of each quantity's variance by source; None where it was not computed."""
    columns: dict[str, Float[np.ndarray, " particle"]] = field(init=False)
    log_evidence: float = field(init=False)
    log_evidence_error: float = field(init=False)
    ess: float = field(init=False)
    verdict: str = field(init=False)
    sampling_verdict: str = field(init=False)
    map: MAPEstimate | None = field(init=False)

    def __post_init__(self) -> None:
        modes = None if self.sampling is None else self.sampling.modes
        derived = {
            "columns": scalars(self.values),
            "log_evidence": float(log_mean_exp(self.evidence_by_population)),
            "log_evidence_error": evidence_error(self.evidence_by_population, self.shared_error),
            "ess": ess_of_weights(self.weights),
            "verdict": "" if self.check is None else self.check.verdict,
            "sampling_verdict": "" if self.sampling is None else self.sampling.verdict,
            "map": modes.found[0] if modes is not None and modes.found else None,
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    # Numbers

    mean = summaries.mean
    sd = summaries.sd
    quantile = summaries.quantile
    table = summaries.table

    # Can it be trusted?

    identifiability = cached_property(find_identifiability)
    """Flags of quantities, and formulas such as b*c that are known while their members are not."""

    def residuals(self, output: str | None = None, record: int = 0) -> Residuals:
        """One-step prediction errors of an output (the first, if none is named) on a training record.

        They are whitened: standard normal and uncorrelated where model and noise are right.  Their `correlation`,
        `probability` (of being white), `spread` and `plot(...)` tell more.
        """
        return checks.residuals(self, output, record)

    def uncertainty(self) -> pd.DataFrame:
        """Share of each quantity's variance that comes from noise, from integration error and from model error."""
        return checks.uncertainty(self, default_executor())

    def checked(self) -> "Posterior":
        """The same with the sources of its variance and the verdict on its integration.

        `identify` leaves the sources out where the number of steps was given: they take sweeps over the data with twice
        and four times as many.  A posterior from a stream gets its residuals and doubts as well.
        """
        return checks.checked(self, default_executor())

    def refined(self, draws: int = 8192, *, seed: int = 0) -> "Posterior":
        """The same posterior with many fresh weighted draws in place of its particles, and a sharper evidence.

        A run takes tens of sweeps over the data to find the posterior; from then on, a draw takes one.  So a run with
        few particles, followed by many draws, is the cheapest way to smooth histograms and precise quantiles.  The
        draws fill the posterior evenly: means are far better known than `ess` says, which counts by the weights.  Where
        no proposal distribution is close enough to the posterior, a `SamplingError` says so.

        Args:
            draws: how many, rounded up to a multiple of 8; powers of two are filled most evenly.
            seed: of the draws.
        """
        from probsysid.posterior.importance_sampling import refine

        return refine(self, draws, seed, default_executor())

    # What the model says

    def simulate(
        self,
        record: Record,
        *,
        initial: Initial = None,
        initial_samples: int | None = None,
        experiment: int | None = None,
        process_noise: bool = True,
        particles: int | None = None,
        skip: int | None = None,
        steps: int | None = None,
        seed: int = 0,
    ) -> Simulation:
        """Free-run simulation on a record: its outputs are used for the initial state at most.

        Args:
            record: inputs and times; its outputs, if any, are what scores compare with.
            initial: the state at the first sample. A mapping gives each physical component a number or a prior to draw
                from. `"estimate"` determines each particle's state from the first samples. By default it is the
                particle's own initial state where the record begins like a training record, and otherwise estimated.
            initial_samples: number of samples for the estimate; by default 50, or a quarter of a short record.
            experiment: index of the training record from the same experiment, whose values parameters that vary between
                records then have. By default a training record that begins alike; on any other record each particle
                has new values, drawn around its common ones with its spread.
            process_noise: draw the white-noise forces of a model that has process noise.
            particles: use this many equally weighted draws instead of all particles.
            skip: samples at the start to leave out of scores, such as a transient; by default those of the estimate.
            steps: integration steps per sample; found automatically if not given.
            seed: of everything that is drawn.
        """
        return predict.simulate_posterior(
            self, record, initial, initial_samples, experiment, process_noise, particles, skip, steps, seed
        )

    def predict(
        self,
        record: Record,
        *,
        level: float = 0.9,
        ahead: int | None = None,
        initial: Initial = None,
        initial_samples: int | None = None,
        experiment: int | None = None,
        particles: int | None = None,
        seed: int = 0,
    ) -> xr.Dataset:
        """Predicted measurements on a record: mean, sd and a band that counts parameters and their variation between
        records, initial state, process noise and measurement noise.

        For outputs that were measured, the attribute `<output>_coverage` is the share of samples within the band.

        Args:
            record: inputs and times, and the outputs that are conditioned on.
            level: probability of the band.
            ahead: predict each sample from the data up to this many samples before it; by default in free run.
            initial: as in `simulate`.
            initial_samples: as in `simulate`.
            experiment: as in `simulate`.
            particles: use this many equally weighted draws instead of all particles.
            seed: of everything that is drawn.
        """
        return predict.predict(self, record, level, ahead, initial, initial_samples, experiment, particles, seed)

    def forecast(
        self, record: Record, *, level: float = 0.9, particles: int | None = None, seed: int = 0
    ) -> xr.Dataset:
        """What comes after training, as `predict` returns it: each particle goes on from its own last state.

        Args:
            record: inputs and times from the last training sample on: `record[n - 1:]` after training on `record[:n]`.
            level: probability of the band.
            particles: use this many equally weighted draws instead of all particles.
            seed: of everything that is drawn.
        """
        return predict.forecast(self, record, level, particles, seed)

    def states(self, record: int = 0, *, draws: int = 50, seed: int = 0) -> States:
        """Smoothed states on a training record: mean, sd and sample paths, over parameters and integration error."""
        return posterior_states(self, record, draws, seed)

    inputs = unknown_inputs.inputs

    @property
    def plot(self) -> "PosteriorPlots":
        """Figures: `plot()` draws marginals with their priors, `plot.corner()` pairs of quantities, `plot.states()`
        smoothed states, `plot.fit(record)` a free run against measurements."""
        from probsysid.report.plots import PosteriorPlots

        return PosteriorPlots(self)

    # Other formats

    to_dataframe = export.to_dataframe
    to_csv = export.to_csv
    to_matlab = export.to_matlab

    def to_arviz(self, draws: int | None = None, *, log_likelihood: bool = True, seed: int = 0) -> "az.InferenceData":
        """ArviZ's InferenceData: equally weighted draws, prior draws, sampler statistics, log likelihood.

        Each population of the run is a chain, so that ArviZ's r_hat and ess compare populations.

        Args:
            draws: in all, rounded up to a multiple of the number of chains; by default as many as particles.
            log_likelihood: whether the log likelihood of every sample is computed, for some of the draws.
            seed: of the draws.
        """
        from probsysid.posterior.arviz import to_inference_data

        return to_inference_data(self, draws, log_likelihood, seed, default_executor())

    def report(self, path: str | Path, *, title: str | None = None) -> None:
        """Write one self-contained HTML page: parameters, fit, states, residuals, how the sampling went."""
        from probsysid.report.page import write_posterior_page

        write_posterior_page(path, self, title=title)

    def save(self, path: str | Path) -> None:
        """Write a netCDF file; `Posterior.load` reads it."""
        storage.save(self, path)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        model: Model | None = None,
        records: Record | Sequence[Record] | None = None,
        setup: Setup | None = None,
    ) -> "Posterior":
        """Read what `save` wrote.  A file holds data and no code: it can be read whoever it comes from.

        Args:
            model: in place of the stored one.  Models of studies are stored by their equations, others by the list of
                their operations; a model with a loop, or with a derivative of its own, is not stored.
            records: in place of the stored ones.  Records with an input that is a function are not stored.
            setup: in place of the stored problem and solver, for priors of classes that numpyro does not define.
        """
        return cls(**storage.load(path, setup, model, records))

    def _repr_html_(self) -> str:
        return html(posterior_card(self))

    def __repr__(self) -> str:
        error = f" +- {self.log_evidence_error:.2g}" if np.isfinite(self.log_evidence_error) else ""
        return (
            f"Posterior of {', '.join(self.values)}: {len(self.weights)} particles (effective {self.ess:.0f}), "
            f"log evidence {self.log_evidence:.2f}{error}"
        )
