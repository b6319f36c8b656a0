"""Posterior probabilities of models and of terms, with the errors of the evidences.

p(model | data) is proportional to p(data | model) p(model).  By default all *numbers of terms* are equally probable a
priori, and all models with as many terms (Scott and Berger 2010): with every further term on the menu, more evidence is
asked for one of them, so that a long menu does not find false terms by chance.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Literal, get_args

import numpy as np
from jaxtyping import Float

from probsysid._internal.errors import InputError, did_you_mean
from probsysid._internal.statistics import log_sum_exp
from probsysid.selection.terms import Names, Terms

ModelPrior = Literal["sizes", "models"]

REPEATS = 1000
"""Draws of the evidences within their errors."""


def check_model_prior(value: object) -> None:
    """Raise unless it is one of `ModelPrior`."""
    if value not in get_args(ModelPrior):
        hint = did_you_mean(str(value), get_args(ModelPrior))
        raise InputError(f"model_prior is {value!r}; it must be 'sizes' or 'models'.{hint}")


def log_model_prior(terms: Terms, names: Names, prior: ModelPrior) -> float:
    """Log prior probability of a model, up to a constant for `"models"`.

    Groups and needs are not counted: models that they forbid keep their share.
    """
    if prior == "models":
        return 0.0
    return -math.log(len(terms) + 1) - math.log(math.comb(len(terms), len(names)))


def normalised(log_posterior: Float[np.ndarray, "*rows model"]) -> Float[np.ndarray, "*rows model"]:
    """Probabilities that sum to one over the last axis."""
    return np.exp(log_posterior - np.asarray(log_sum_exp(log_posterior))[..., None])


def with_errors(
    log_posterior: Float[np.ndarray, " model"], errors: Float[np.ndarray, " model"], seed: int
) -> Float[np.ndarray, "draw model"]:
    """Probabilities for draws of the evidences within their standard errors; an unknown error counts as none."""
    random = np.random.default_rng([seed, 23])
    noise = random.standard_normal((REPEATS, len(errors))) * np.nan_to_num(errors, nan=0.0, posinf=0.0)
    return normalised(log_posterior + noise)


def inclusion(
    names: Sequence[str], models: Sequence[Names], probabilities: Float[np.ndarray, "*rows model"]
) -> Mapping[str, Float[np.ndarray, "*rows"]]:
    """Posterior probability that the model has each term."""
    return {n: probabilities @ np.array([float(n in model) for model in models]) for n in names}
