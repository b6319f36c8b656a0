"""What comes out: weighted particles, and everything one wants to know of them."""

import json
import time as clock
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cloudpickle
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import xarray as xr
from jaxtyping import Float

from probsysid._internal.errors import InputError
from probsysid._internal.files import write_atomically
from probsysid._version import __version__
from probsysid.data.record import Record
from probsysid.model.fingerprint import describe_prior
from probsysid.model.initial_state import initial_moments
from probsysid.model.problem import Problem
from probsysid.odefilter.filter_inputs import prepare
from probsysid.posterior.diagnostics.identifiability import flags
from probsysid.posterior.diagnostics.residuals import Residuals, analyse, judged
from probsysid.posterior.diagnostics.solver_check import compare, facts
from probsysid.posterior.diagnostics.variance_decomposition import (
    FINER,
    log_likelihood,
    split,
    with_steps,
    without_model_error,
)
from probsysid.posterior.simulate import Simulation, simulate
from probsysid.posterior.states import States, smoothed_states
from probsysid.smc.history import History, evidence_error, log_mean_exp
from probsysid.smc.ibis import IBISState
from probsysid.smc.rejuvenate import Rejuvenation
from probsysid.smc.resampling import Systematic
from probsysid.targets.batch_target import BatchTarget

if TYPE_CHECKING:
    import arviz as az


def scalars(values: Mapping[str, np.ndarray]) -> dict[str, Float[np.ndarray, " particle"]]:
    """Every scalar quantity by name; entries of arrays as `name[0]`, ..."""
    result = {}
    for name, value in values.items():
        if value.ndim == 1:
            result[name] = value
        else:
            for index in np.ndindex(value.shape[:-1]):
                result[f"{name}[{','.join(map(str, index))}]"] = value[index]
    return result


@dataclass(frozen=True, eq=False)
class Posterior:
    """The posterior of everything that had a prior.

    `values` holds each quantity by name with the particle axis last; `weights` sum to one.
    """

    values: dict[str, Float[np.ndarray, "*shape particle"]]
    theta: Float[np.ndarray, "dimension particle"]
    weights: Float[np.ndarray, " particle"]
    evidence_by_population: Float[np.ndarray, " population"]
    """Log evidence of each population that resamples by itself: an island, or a half of it."""
    history: History
    settings: dict[str, Any]
    records: tuple[Record, ...] = ()
    pickled_problem: bytes | None = None
    _problem: list[Problem] = field(default_factory=list, repr=False)
    errors: tuple[Float[np.ndarray, "sample output"], ...] = ()
    """One-step prediction errors in units of their standard deviation, for each record; empty for a stream."""

    @classmethod
    def from_run(
        cls,
        run: IBISState,
        history: History,
        problem: Problem,
        records: tuple[Record, ...],
        settings: Mapping[str, Any],
    ) -> "Posterior":
        """The posterior that a run has arrived at."""
        values = {name: np.asarray(v) for name, v in problem.space.values(run.flat_theta).items()}
        passed = sum(record.samples for record in records) or run.samples
        facts = {
            "version": __version__,
            "created": clock.strftime("%Y-%m-%dT%H:%M:%S"),
            "model": problem.model.name,
            "particles": int(run.normalised_weights.size),
            "samples": run.samples,
            "sweeps": run.work / run.normalised_weights.size / max(passed, 1),
            "lost": run.lost,
            "solver": repr(problem.solver),
            "seed": run.seed,
            **settings,
        }
        return cls(
            values,
            run.flat_theta,
            run.normalised_weights,
            run.evidence_by_population,
            history,
            facts,
            records,
            None,
            [problem],
        )

    # Numbers

    @property
    def log_evidence(self) -> float:
        """Log of the probability density of the data under the model and its priors."""
        return float(log_mean_exp(self.evidence_by_population))

    @property
    def log_evidence_error(self) -> float:
        """Standard error of the log evidence, from the spread over islands and their halves; NaN where there is one."""
        return evidence_error(self.evidence_by_population)

    @property
    def log_predictive(self) -> Float[np.ndarray, " sample"]:
        """Log predictive density of each sample given those before it; their sum is the log evidence where the accuracy
        stayed the same throughout.
        """
        return self.history.log_predictive

    @property
    def ess(self) -> float:
        """Effective number of particles."""
        return float(1 / np.sum(self.weights**2))

    @property
    def run_particles(self) -> int:
        """Particles of the run; fresh draws are not counted."""
        return int(self.settings.get("refined_from", len(self.weights)))

    @cached_property
    def columns(self) -> dict[str, Float[np.ndarray, " particle"]]:
        """Every scalar quantity by name; entries of arrays as `name[0]`, ..."""
        return scalars(self.values)

    def mean(self, name: str) -> float:
        """Posterior mean of a quantity."""
        return float(self.weights @ self._column(name))

    def sd(self, name: str) -> float:
        """Posterior standard deviation of a quantity."""
        column = self._column(name)
        return float(np.sqrt(self.weights @ (column - self.weights @ column) ** 2))

    def quantile(self, name: str, level: float | list[float]) -> Any:
        """Posterior quantiles of a quantity."""
        column = self._column(name)
        order = np.argsort(column)
        cumulative = np.cumsum(self.weights[order])
        found = column[order[np.minimum(np.searchsorted(cumulative, level), len(order) - 1)]]
        return float(found) if np.ndim(level) == 0 else found

    def correlation(self) -> pd.DataFrame:
        """Posterior correlation of all quantities."""
        names = list(self.columns)
        stacked = np.stack([self.columns[name] for name in names])
        covariance = np.atleast_2d(np.cov(stacked, aweights=self.weights, bias=True))
        sd = np.sqrt(np.diag(covariance))
        with np.errstate(invalid="ignore", divide="ignore"):
            return pd.DataFrame(covariance / np.outer(sd, sd), index=names, columns=names)

    def table(self) -> pd.DataFrame:
        """Mean, sd, 5 % and 95 % quantiles, unit, prior and flags of every quantity."""
        priors = self.settings.get("priors", {})
        units = self.settings.get("units", {})
        marks = flags(self)
        rows = []
        for name in self.columns:
            base = name.split("[")[0]
            low, high = self.quantile(name, [0.05, 0.95])
            rows.append(
                {
                    "mean": self.mean(name),
                    "sd": self.sd(name),
                    "q05": low,
                    "q95": high,
                    "unit": units.get(base, ""),
                    "prior": priors.get(name, priors.get(base, "")),
                    "flags": "; ".join(marks.get(name, ())),
                }
            )
        table = pd.DataFrame(rows, index=pd.Index(list(self.columns), name="parameter"))
        if "uncertainty" in self.settings:
            shares = self.uncertainty()
            for source in shares:
                table.insert(table.columns.get_loc("unit"), f"from {source}", shares[source])
        return table

    @property
    def verdict(self) -> str:
        """Whether the integration was accurate enough, in one sentence; empty where it was not looked at."""
        return str(self.settings.get("solver_verdict", ""))

    @property
    def doubts(self) -> list[str]:
        """What speaks against the model or the noise that was given, in sentences; empty if nothing does."""
        return list(self.settings.get("doubts", []))

    def residuals(self, output: str | None = None, record: int = 0) -> Residuals:
        """One-step prediction errors of an output (the first, if none is named) on a training record.

        They are whitened: standard normal and uncorrelated where model and noise are right.  Their `correlation`,
        `probability` (of being white), `spread` and `plot(...)` tell more.
        """
        names = self.problem.model.output_names
        output = names[0] if output is None else output
        if output not in names:
            raise InputError(f"there is no output {output!r}; the model has: {', '.join(names)}.")
        if record >= len(self.errors):
            raise InputError(f"there are no residuals for record {record}; {len(self.errors)} records have them.")
        found = analyse(self.errors[record][:, names.index(output)][None])
        if found is None:
            raise InputError(f"{output!r} has too few measured samples on record {record} to judge residuals by.")
        return found

    def uncertainty(self) -> pd.DataFrame:
        """Share of each quantity's variance that comes from noise, from integration error and from model error."""
        checked = self.checked()
        return pd.DataFrame.from_dict(checked.settings["uncertainty"], orient="index").rename_axis("parameter")

    def checked(self) -> "Posterior":
        """The same with a verdict on its integration and the shares of uncertainty, which `identify` leaves out where
        the number of steps was given: that takes sweeps over the data with twice and four times as many.  A posterior
        from a stream gets its residuals and doubts as well."""
        if "uncertainty" in self.settings:
            return self
        if not self.records:
            raise InputError("this posterior was loaded without its records; a verdict needs them.")
        if not self.errors:
            return self._with_errors().checked()
        problem, records, theta = self.problem, self.records, self.theta
        steps = problem.solver.steps
        base = log_likelihood(problem, records, theta)
        twice = log_likelihood(with_steps(problem, 2 * steps), records, theta)
        differences = {"integration": log_likelihood(with_steps(problem, FINER * steps), records, theta) - base}
        if problem.model_error:
            plain, rest = without_model_error(problem, theta)
            differences["model error"] = log_likelihood(plain, records, rest) - base
        found = compare(self.weights, twice - base, self.columns, steps, 2 * steps)
        shares = split(theta, self.weights, self.columns, differences)
        return replace(self, settings=self.settings | facts(found, shares))

    def refined(self, draws: int = 8192, *, seed: int = 0) -> "Posterior":
        """The same posterior with many fresh weighted draws in place of its particles, and a sharper evidence.

        A run takes tens of sweeps over the data to find the posterior; from then on, a draw takes one.  So a run with
        few particles and many draws afterwards is the cheapest way to smooth histograms and precise quantiles.  The
        draws fill the posterior evenly: means are far better known than `ess` says, which counts by the weights.  Where
        nothing that is close enough to the posterior can be found to draw from, this says so with a `SamplingError`.

        Args:
            draws: how many, rounded up to a multiple of 8; powers of two are filled most evenly.
            seed: of the draws.
        """
        from probsysid.posterior.importance_sampling import refine

        return refine(self, draws, seed)

    def _with_errors(self) -> "Posterior":
        problem = self.problem
        errors = BatchTarget(problem, self.records, len(self.weights)).one_step_errors(self.theta, self.weights)
        found = judged(errors, problem.model.output_names, problem.noise, fixed_steps=False)
        return replace(self, errors=errors, settings=self.settings | {"doubts": found})

    def rejuvenations(self) -> pd.DataFrame:
        """Acceptance, moves, unique particles and cost of every rejuvenation."""
        return self.history.table()

    def draw_indices(self, count: int, seed: int = 0) -> np.ndarray:
        """Indices of equally weighted draws."""
        return Systematic()(np.random.default_rng([seed, 3]), self.weights, count)

    # What the model says

    @property
    def problem(self) -> Problem:
        """The model, priors and solver behind the posterior."""
        if not self._problem:
            if self.pickled_problem is None:
                raise InputError("this posterior was saved without its model; load it with model=...")
            self._problem.append(cloudpickle.loads(self.pickled_problem))
        return self._problem[0]

    def simulate(
        self,
        record: Record,
        *,
        initial: Mapping[str, Any] | None = None,
        particles: int | None = None,
        skip: int = 0,
        steps: int | None = None,
        seed: int = 0,
    ) -> Simulation:
        """Free-run simulation on a record, without looking at its outputs.

        Args:
            record: inputs and times; its outputs, if any, are what scores compare with.
            initial: of each physical component at the first sample: a number, or a `dist.Normal` that each particle
                draws its own start from; those not named are zero.
            particles: use this many equally weighted draws instead of all particles.
            skip: samples at the start to leave out of scores, such as a transient.
            steps: integration steps a sample; found automatically if not given.
            seed: of the starts that are drawn.
        """
        model = self.problem.model
        chosen = np.arange(len(self.weights)) if particles is None else self.draw_indices(particles)
        weights = self.weights if particles is None else np.full(len(chosen), 1 / len(chosen))
        random = np.random.default_rng([seed, 5])
        moments = initial_moments(model, initial or {})
        start = np.array([mean + sd * random.standard_normal(len(chosen)) for mean, sd in moments])
        outputs, taken, error = simulate(model, self._parameters(chosen), start, record, steps)
        return Simulation(record, outputs, weights, taken, error, skip)

    def predict(
        self, record: Record, *, level: float = 0.9, initial: Mapping[str, Any] | None = None, seed: int = 0
    ) -> xr.Dataset:
        """Predicted measurements on a record: mean and a band that counts parameters and measurement noise."""
        simulation = self.simulate(record, initial=initial, seed=seed)
        random = np.random.default_rng([seed, 4])
        variables: dict[str, Any] = {}
        for name, values in simulation.outputs.items():
            noise = self._noise(name)
            noisy = values + noise[:, None] * random.standard_normal(values.shape)
            low, high = Simulation(record, {name: noisy}, simulation.weights, simulation.steps, 0.0).band(level)
            variables |= {name: ("time", simulation.mean(name)), f"{name}_low": ("time", low)}
            variables[f"{name}_high"] = ("time", high)
        return xr.Dataset(variables, coords={"time": record.time}, attrs={"level": level})

    def states(self, record: int = 0, *, draws: int = 50, seed: int = 0) -> States:
        """Smoothed states on a training record: mean, sd and sample paths, over parameters and integration error."""
        if not self.records:
            raise InputError("this posterior was loaded without its records; states need them.")
        problem, data = self.problem, self.records[record]
        ode_filter = problem.solver.ode_filter(problem.model, data.jump_order)
        theta = jnp.asarray(self.theta[:, self.draw_indices(draws, seed)])
        values = jax.vmap(problem.space.values_of_one, in_axes=-1, out_axes=-1)(theta)
        particle = jax.vmap(lambda v: problem.particle(v, record), in_axes=-1, out_axes=-1)(values)
        samples = prepare(data, ode_filter, problem.solver.steps)
        return smoothed_states(ode_filter, particle, samples, data, seed)

    def _parameters(self, chosen: np.ndarray) -> dict[str, np.ndarray]:
        model, priors = self.problem.model, self.problem.priors
        return {
            name: self.values[name][..., chosen]
            if name in self.values
            else np.repeat(np.asarray(priors[name], dtype=float)[..., None], len(chosen), axis=-1)
            for name in model.parameter_names
        }

    def _noise(self, output: str) -> np.ndarray:
        key = f"noise.{output}"
        if key in self.values:
            return self.values[key]
        return np.full(len(self.weights), float(self.problem.noise[output]))

    def _column(self, name: str) -> np.ndarray:
        if name not in self.columns:
            raise InputError(f"there is no {name!r} in the posterior; it has: {', '.join(self.columns)}.")
        return self.columns[name]

    # Other formats

    def to_arviz(self, draws: int | None = None, *, log_likelihood: bool = True, seed: int = 0) -> "az.InferenceData":
        """ArviZ's InferenceData: equally weighted draws, prior draws, sampler statistics, log likelihood."""
        from probsysid.posterior.arviz import to_inference_data

        return to_inference_data(self, draws, log_likelihood, seed)

    def report(self, path: str | Path, *, title: str | None = None) -> None:
        """Write one self-contained HTML page: parameters, fit, states, residuals, how the sampling went."""
        from probsysid.report.page import write_posterior_page

        write_posterior_page(path, self, title=title)

    def save(self, path: str | Path) -> None:
        """Write a netCDF file; `Posterior.load` reads it."""
        dataset = self.to_xarray()
        path = Path(path)
        write_atomically(path, bytes(dataset.to_netcdf(engine="h5netcdf")))

    def to_xarray(self) -> xr.Dataset:
        """Weighted particles and the history as one data set."""
        variables: dict[str, Any] = {
            f"value:{name}": ([*(f"{name}_dim{i}" for i in range(value.ndim - 1)), "particle"], value)
            for name, value in self.values.items()
        }
        variables |= {
            "weights": ("particle", self.weights),
            "theta": (("dimension", "particle"), self.theta),
            "evidence_by_population": ("population", self.evidence_by_population),
            "ess": (("sample", "island"), self.history.ess),
            "evidence": (("sample", "island"), self.history.evidence),
        }
        variables |= {f"errors:{r}": ((f"sample_{r}", "output"), values) for r, values in enumerate(self.errors)}
        attributes = {
            "settings": json.dumps(self.settings, default=str),
            "rejuvenations": json.dumps([list(r) for r in self.history.rejuvenations]),
            "rebased": json.dumps([[samples, list(e)] for samples, e in self.history.rebased.items()]),
            "names": json.dumps(list(self.values)),
        }
        problem = cloudpickle.dumps(self.problem) if self._problem else self.pickled_problem
        if problem is not None:
            variables["problem"] = ("byte", np.frombuffer(problem, dtype=np.uint8))
        return xr.Dataset(variables, attrs=attributes)

    @classmethod
    def load(cls, path: str | Path, *, problem: Problem | None = None) -> "Posterior":
        """Read what `save` wrote.

        Numbers are read at once.  The model is stored as Python code (cloudpickle) and brought back only when
        something needs it, such as `simulate`: do that with files you trust.
        """
        try:
            with xr.open_dataset(path, engine="h5netcdf") as dataset:
                dataset.load()
            names = json.loads(dataset.attrs["names"])
        except (OSError, KeyError, ValueError) as error:
            raise InputError(f"{path} is not a saved posterior ({error}).") from None
        rejuvenations = [Rejuvenation(*row) for row in json.loads(dataset.attrs["rejuvenations"])]
        rebased = {samples: np.array(evidence) for samples, evidence in json.loads(dataset.attrs["rebased"])}
        islands = dataset.sizes["island"]
        return cls(
            {name: dataset[f"value:{name}"].values for name in names},
            dataset["theta"].values,
            dataset["weights"].values,
            dataset["evidence_by_population"].values,
            History(islands, [dataset["ess"].values], [dataset["evidence"].values], rejuvenations, rebased),
            json.loads(dataset.attrs["settings"]),
            (),
            dataset["problem"].values.tobytes() if "problem" in dataset else None,
            [problem] if problem is not None else [],
            tuple(dataset[f"errors:{r}"].values for r in range(sum(str(n).startswith("errors:") for n in dataset))),
        )

    def __repr__(self) -> str:
        error = f" +- {self.log_evidence_error:.2g}" if np.isfinite(self.log_evidence_error) else ""
        return (
            f"Posterior of {', '.join(self.values)}: {len(self.weights)} particles (effective {self.ess:.0f}), "
            f"log evidence {self.log_evidence:.2f}{error}"
        )


def prior_descriptions(problem: Problem) -> dict[str, str]:
    """The prior of each quantity in words."""
    result = {}
    for site in problem.space.sites:
        for name in site.name if isinstance(site.name, tuple) else (site.name,):
            result[name] = describe_prior(site.prior)
    return result
