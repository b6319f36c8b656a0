"""What a search has found: models with their probabilities, terms with theirs, and the doubts about both."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float

from probsysid._internal.errors import InputError
from probsysid.data.record import Record
from probsysid.posterior.posterior import Posterior
from probsysid.posterior.simulate import Simulation
from probsysid.selection.evaluated import Evaluated
from probsysid.selection.menu import Menu
from probsysid.selection.probabilities import ModelPrior, inclusion, log_model_prior, normalised, with_errors
from probsysid.selection.terms import Names

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NEGLIGIBLE = 0.01
"""Models below this probability, together, are left out of averaged predictions."""

CERTAIN = 2.0
"""Standard errors by which a prediction must be better to raise an alarm ..."""
LEAST = 2.0
"""... and the least difference of log predictive densities."""


LEAST_ERROR = 0.5
"""Standard error of a log evidence by screening, at least."""


class _Judged(NamedTuple):
    names: Sequence[Names]
    log_posterior: Float[np.ndarray, " model"]
    errors: Float[np.ndarray, " model"]


@dataclass(frozen=True, eq=False)
class Selection:
    """Models of a menu that were run, best first.

    Attributes:
        menu: the model, its terms and the records.
        models: `Evaluated` ones, with `log_evidence`, `error`, `posterior`.
        probabilities: posterior probability of each, among those that were run or screened.
        errors: standard errors of these, from those of the evidences.
        screened: log evidence of models by Laplace's approximation, whether they were run or not.
        parents: of every model that was seen, the one from which it was reached first.
        notes: why the search stopped before its end, and what else to know about it; empty if nothing.
    """

    menu: Menu
    models: tuple[Evaluated, ...]
    model_prior: ModelPrior
    screened: Mapping[Names, float]
    parents: Mapping[Names, Names | None]
    notes: tuple[str, ...] = ()

    @cached_property
    def _judged(self) -> "_Judged":
        """All models whose evidence is known or estimated: those that were run first."""
        runs = [(m.names, m.log_evidence, m.error) for m in self.models]
        differences = np.array([m.log_evidence - self.screened.get(m.names, math.nan) for m in self.models])
        differences = differences[np.isfinite(differences)]
        shift = float(np.median(differences)) if len(differences) else 0.0
        error = max(float(np.median(np.abs(differences - shift))) if len(differences) else 0.0, LEAST_ERROR)
        run = {names for names, _, _ in runs}
        rest = [(n, v + shift, error) for n, v in self.screened.items() if n not in run and math.isfinite(v)]
        names, evidence, errors = zip(*runs, *rest, strict=True)
        prior = [log_model_prior(self.menu.terms, each, self.model_prior) for each in names]
        return _Judged(names, np.array(evidence) + np.array(prior), np.array(errors))

    @cached_property
    def _every(self) -> Float[np.ndarray, " model"]:
        """Probabilities of all models that are judged."""
        return normalised(self._judged.log_posterior)

    @cached_property
    def _spread(self) -> Float[np.ndarray, "draw model"]:
        return with_errors(self._judged.log_posterior, self._judged.errors, self.menu.options["seed"])

    @property
    def probabilities(self) -> Float[np.ndarray, " model"]:
        return self._every[: len(self.models)]

    @property
    def errors(self) -> Float[np.ndarray, " model"]:
        return self._spread.std(axis=0)[: len(self.models)]

    @property
    def not_run(self) -> float:
        """Probability, by screening, of models that were not run."""
        return float(self._every[len(self.models) :].sum())

    @property
    def best(self) -> Evaluated:
        """The most probable model."""
        return self.models[0]

    @property
    def posterior(self) -> Posterior:
        """Of the most probable model."""
        return self.best.posterior

    @cached_property
    def inclusion(self) -> dict[str, float]:
        """Posterior probability of each term: that of all models that have it."""
        found = inclusion(self.menu.terms.names, self._judged.names, self._every)
        return {name: float(probability) for name, probability in found.items()}

    @cached_property
    def inclusion_errors(self) -> dict[str, float]:
        """Their standard errors."""
        found = inclusion(self.menu.terms.names, self._judged.names, self._spread)
        return {name: float(draws.std()) for name, draws in found.items()}

    def label(self, model: Evaluated) -> str:
        """Its terms in words."""
        return self.menu.terms.label(model.names)

    def table(self) -> pd.DataFrame:
        """One row per model, best first; `ahead` is the log predictive density of the last samples."""
        rows = [
            {
                "terms": self.label(model),
                "log_evidence": model.log_evidence,
                "error": model.error,
                "probability": probability,
                "probability_error": error,
                "ahead": model.ahead,
                "screened": self.screened.get(model.names, math.nan),
                "trusted": model.trusted,
                "seconds": model.seconds,
            }
            for model, probability, error in zip(self.models, self.probabilities, self.errors, strict=True)
        ]
        return pd.DataFrame(rows, index=pd.Index([model.number for model in self.models], name="model"))

    def scores(self, record: Record, output: str | None = None, **options: Any) -> pd.Series:
        """Root mean square error of each model in free run on a record, for a look: nothing is chosen by it.

        `options` are those of `Posterior.simulate`.
        """
        found = {}
        for model in self.models:
            if math.isfinite(model.log_evidence):
                found[model.number] = model.posterior.simulate(record, **options).rmse(output).mean
        return pd.Series(found, name="rmse").rename_axis("model")

    def simulate(self, record: Record, **options: Any) -> Simulation:
        """Free run averaged over the models: particles of each, weighted by its probability.

        `options` are those of `Posterior.simulate`.
        """
        kept = [(m, p) for m, p in zip(self.models, self.probabilities, strict=True) if p > 0]
        while len(kept) > 1 and kept[-1][1] < NEGLIGIBLE / len(self.models):
            kept.pop()
        runs = [(model.posterior.simulate(record, **options), share) for model, share in kept]
        shares = np.concatenate([share * run.weights for run, share in runs])
        first = runs[0][0]
        outputs = {name: np.concatenate([run.outputs[name] for run, _ in runs]) for name in first.outputs}
        return replace(
            first,
            outputs=outputs,
            weights=shares / shares.sum(),
            steps=max(run.steps for run, _ in runs),
            integration_error=float(np.max([run.integration_error for run, _ in runs])),
            chosen=np.arange(len(shares)),
        )

    @cached_property
    def alarm(self) -> str:
        """A sentence where the prediction of the last samples prefers another model than the evidence; else empty.

        The evidence judges all samples, and with the first ones the prior: a disagreement says that priors are wide or
        wrong, or that the system changes.
        """
        best = self.best
        rivals = [m for m in self.models if len(m.predictive) and len(m.predictive) == len(best.predictive)]
        if best not in rivals:
            return ""
        rival = max(rivals, key=lambda model: model.ahead)
        gains = rival.predictive - best.predictive
        gain, error = float(gains.sum()), float(np.std(gains) * math.sqrt(len(gains)))
        if rival is best or gain < max(LEAST, CERTAIN * error):
            return ""
        return (
            f"model {rival.number} ({self.label(rival)}) predicts the last {len(gains)} samples better than model "
            f"{best.number} ({self.label(best)}), which has the highest evidence: log predictive density {gain:.1f} "
            f"+- {error:.1f} higher. Look at the priors of the terms in which they differ; does the system change?"
        )

    def tree(self, path: str | Path | None = None) -> "Figure":
        """The search as a picture: models by their number of terms and their log probability."""
        from probsysid.selection.tree import plot_tree  # matplotlib takes long to import

        return plot_tree(self, path)

    def summary(self) -> dict[str, Any]:
        """Numbers as plain data."""
        table = self.table().reset_index().to_dict("records")
        plain = [{key: _plain(value) for key, value in row.items()} for row in table]
        return {
            "best": self.label(self.best),
            "models": plain,
            "not_run": self.not_run,
            "inclusion": self.inclusion,
            "inclusion_errors": self.inclusion_errors,
            "model_prior": self.model_prior,
            "alarm": self.alarm,
            "notes": list(self.notes),
        }

    def model(self, number: int) -> Evaluated:
        """A model by its number."""
        for model in self.models:
            if model.number == number:
                return model
        raise InputError(f"there is no model {number!r}; they are numbered from 1 to {len(self.models)}.")

    def __repr__(self) -> str:
        found = self.table().head(10)[["terms", "log_evidence", "error", "probability"]]
        terms = sorted(self.inclusion.items(), key=lambda item: -item[1])
        listed = ", ".join(f"{name} {p:.2f}" for name, p in terms if p >= NEGLIGIBLE)
        return f"{found.to_string(float_format='%.3g')}\nterms: {listed or 'none'}"


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value.item() if isinstance(value, np.generic) else value


def sentences(models: Sequence[Evaluated], label: Any) -> tuple[str, ...]:
    """What speaks against runs of probable models."""
    return tuple(f"model {m.number} ({label(m)}): {m.verdict}" for m in models if not m.trusted and m.verdict)
