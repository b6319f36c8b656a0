"""Formulas that the data identify where they do not identify the quantities in them: b*c, k/m, a + b, |b|.

A product of powers is a sum of logarithms, so the search is linear in one of two scales: logarithms of absolute values
(products) or the values themselves (sums).  Quantities of which only a formula is known lie on a ridge: their
correlation matrix has an eigenvalue near zero, whose eigenvector holds the exponents.  Smallest sets of such quantities
come first, pairs before triples: in a set of which no part is tied the eigenvector is unique.  The exponents are
rounded to small integers, if that loses almost nothing.

Whether the data or the prior is behind it is seen in normal scores of the prior, in which each quantity is standard
normal before the data: along the ridge the posterior is about as wide as the prior, across it far narrower.  Scores are
the same in every coordinate of a quantity, natural, logarithmic or unconstrained.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb, gcd

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri

from probsysid._internal.statistics import weighted_moments
from probsysid.posterior.diagnostics.formulas import Combination, product_of_powers, sum_of_terms

FAR_BETTER = 0.2
"""A formula is stated if its sd, in the scale of the search, is at most this fraction of that of each of its terms: a
correlation of 0.98 in a pair of equal widths.  At a weaker tie the quantities themselves are half as good an answer.
Of exponents beyond one there are more to choose from, and one of them fits by chance: the fraction is divided by one
plus the excess of the exponents over one, so a^2*b needs half of it."""

PRODUCT_FIRST = 0.7
"""A sum replaces a product of positive quantities only if it is tighter by this factor: k/m = 1 is also k - m = 0."""

LOSS = 1.1
"""Largest factor by which rounded exponents may widen a formula.  The sd grows by this factor if the formula has a
correlation of 0.4 with the position on the ridge: a ridge of other exponents shows."""

UNSHRUNK = 0.5
"""The data did not shrink a direction if the posterior's sd along it is at least this fraction of the prior's.  The
prior then has a quarter or more of the information; along ridges of flat likelihood it has all."""

LEARNT_OF = 0.5
"""A formula was learnt from the data if its sd is at most this fraction of the prior's; one that the prior implies,
such as the sum of shares, is not a finding."""

WITHIN = 0.5
"""Like `FAR_BETTER`, for each half of the ridge: two separate modes lie on many lines and curves at once, and have no
width along them.  A half of a normal distribution has 0.6 of its sd, so 0.2 becomes a third."""

LARGEST_EXPONENT, LARGEST_SET = 4, 4

MOST_SETS = 5000
"""Sets of one size; larger sizes are left out where there are more (4 of 20 quantities are 4845)."""

BOTH_SIGNS = 0.01
"""Probability of the less probable sign from which a quantity has both."""


@dataclass(frozen=True, eq=False)
class Beliefs:
    """Posterior and prior of all scalar quantities."""

    names: tuple[str, ...]
    values: Float[np.ndarray, "quantity particle"]
    weights: Float[np.ndarray, " particle"]
    prior: Float[np.ndarray, "quantity draw"]
    units: tuple[str, ...]

    @classmethod
    def of(
        cls,
        columns: Mapping[str, np.ndarray],
        weights: Float[np.ndarray, " particle"],
        prior: Mapping[str, np.ndarray],
        units: Mapping[str, str] | None = None,
    ) -> "Beliefs":
        """Of the quantities that have a prior; units may be those of whole arrays."""
        names = tuple(name for name in columns if name in prior)
        known = units or {}
        return cls(
            names,
            np.array([columns[name] for name in names]),
            weights,
            np.array([prior[name] for name in names]),
            tuple(known.get(name, known.get(name.split("[")[0], "")) for name in names),
        )


def prior_scores(
    values: Float[np.ndarray, " particle"], prior: Float[np.ndarray, " draw"]
) -> Float[np.ndarray, " particle"]:
    """Values as quantiles of a standard normal distribution: prior draws become standard normal."""
    levels = (np.arange(len(prior)) + 0.5) / len(prior)
    return np.asarray(ndtri(np.interp(values, np.sort(prior), levels)))


def find_combinations(beliefs: Beliefs, largest: int = LARGEST_SET) -> list[Combination]:
    """Formulas of so many members that are known while these are not, the simplest and best known first."""
    folded = [i for i in range(len(beliefs.names)) if _known_up_to_sign(beliefs, i)]
    found = _independent(beliefs, _Search(beliefs).run(largest))
    return [*(_absolute(beliefs, i) for i in folded), *found]


# Known up to its sign


def _known_up_to_sign(beliefs: Beliefs, index: int) -> bool:
    """Whether a quantity has both signs, and its absolute value is known far better than itself."""
    values, weights = beliefs.values[index], beliefs.weights
    if not _has_both_signs(values, weights):
        return False
    size = weighted_moments(np.abs(values), weights)[1]
    learnt = size <= LEARNT_OF * float(np.std(np.abs(beliefs.prior[index])))
    return learnt and size <= FAR_BETTER * weighted_moments(values, weights)[1]


def _has_both_signs(values: Float[np.ndarray, " particle"], weights: Float[np.ndarray, " particle"]) -> bool:
    return BOTH_SIGNS <= float(weights[values > 0].sum()) <= 1 - BOTH_SIGNS


def _absolute(beliefs: Beliefs, index: int) -> Combination:
    name, values = beliefs.names[index], beliefs.values[index]
    size = weighted_moments(np.abs(values), beliefs.weights)
    return Combination(f"|{name}|", (name,), (1,), *size, (weighted_moments(values, beliefs.weights),))


# The search


@dataclass(frozen=True, eq=False)
class _Scale:
    """Coordinates in which a kind of formula is linear: logarithms for products, values for sums."""

    product: bool
    values: Float[np.ndarray, "quantity particle"]
    prior: Float[np.ndarray, "quantity draw"]
    covariance: Float[np.ndarray, "quantity quantity"]
    usable: tuple[int, ...]
    """Quantities that may be part of a tie."""


@dataclass(frozen=True)
class _Found:
    product: bool
    subset: tuple[int, ...]
    exponents: tuple[int, ...]
    tightness: float


class _Search:
    """Over sets of quantities, the small ones first."""

    def __init__(self, beliefs: Beliefs):
        self.beliefs = beliefs
        pairs = list(zip(beliefs.values, beliefs.prior, strict=True))
        self.scores = np.array([prior_scores(v, p) for v, p in pairs]).reshape(len(pairs), -1)
        own = np.array([prior_scores(p, p) for _, p in pairs]).reshape(len(pairs), -1)
        self.prior_covariance = np.atleast_2d(np.cov(own)) if len(pairs) else np.zeros((0, 0))
        self.score_covariance = _covariance(self.scores, beliefs.weights)
        self.scales = [
            _scale(True, _log_size(beliefs.values), _log_size(beliefs.prior), beliefs.weights),
            _scale(False, beliefs.values, beliefs.prior, beliefs.weights),
        ]

    def run(self, largest: int) -> list[_Found]:
        """Every formula of a set of which no part is tied."""
        tied: list[set[int]] = []
        found = []
        usable = sorted({i for scale in self.scales for i in scale.usable})
        for size in range(2, largest + 1):
            if comb(len(usable), size) > MOST_SETS:
                break
            for subset in combinations(usable, size):
                if any(part <= set(subset) for part in tied):
                    continue
                is_tied, best = self._judge(subset)
                if is_tied:
                    tied.append(set(subset))
                if best is not None:
                    found.append(best)
        return found

    def _judge(self, subset: tuple[int, ...]) -> tuple[bool, _Found | None]:
        """Whether the quantities are tied in any scale, and the formula that fits best."""
        is_tied = False
        options: dict[bool, _Found] = {}
        for scale in self.scales:
            if not set(subset) <= set(scale.usable):
                continue
            covariance = scale.covariance[np.ix_(subset, subset)]
            if _relative_sd(covariance, _eigenvector(covariance)) > FAR_BETTER:
                continue
            is_tied = True
            exponents = _rounded(covariance)
            if exponents is not None and self._true(scale, subset, exponents):
                tightness = _relative_sd(covariance, np.array(exponents, float))
                options[scale.product] = _Found(scale.product, subset, exponents, tightness)
        return is_tied, self._preferred(options)

    def _preferred(self, options: Mapping[bool, _Found]) -> _Found | None:
        """The tighter of a product and a sum; the product if there is little between them and signs are given."""
        if len(options) < 2:
            return next(iter(options.values()), None)
        given = np.all(self.beliefs.prior[list(options[True].subset)] > 0)
        factor = PRODUCT_FIRST if given else 1.0
        return options[options[False].tightness >= factor * options[True].tightness]

    def _true(self, scale: _Scale, subset: tuple[int, ...], exponents: tuple[int, ...]) -> bool:
        """Whether the formula makes sense, was learnt from the data, and its members were not."""
        members = list(subset)
        if not scale.product and len({self.beliefs.units[i] for i in members}) > 1:
            return False
        factors = np.array(exponents, float)
        before = float(np.std(factors @ scale.prior[members]))
        after = weighted_moments(factors @ scale.values[members], self.beliefs.weights)[1]
        return after <= LEARNT_OF * before and self._unshrunk(members) and self._is_ridge(scale, members, factors)

    def _unshrunk(self, members: list[int]) -> bool:
        """Whether the posterior is as wide as the prior along some direction."""
        block = np.ix_(members, members)
        root = np.linalg.cholesky(self.prior_covariance[block] + 1e-9 * np.eye(len(members)))
        whitened = np.linalg.solve(root, np.linalg.solve(root, self.score_covariance[block]).T)
        return float(np.linalg.eigvalsh(whitened)[-1]) >= UNSHRUNK**2

    def _is_ridge(self, scale: _Scale, members: list[int], factors: Float[np.ndarray, " member"]) -> bool:
        """Whether the tie is there in both halves of the posterior, cut at the mean of the first member."""
        first = scale.values[members[0]]
        upper = first > self.beliefs.weights @ first
        for half in (upper, ~upper):
            weights = self.beliefs.weights[half]
            if weights.sum() <= 0:
                return False
            covariance = _covariance(scale.values[members][:, half], weights / weights.sum())
            if not np.all(np.diag(covariance) > 0) or _relative_sd(covariance, factors) > WITHIN:
                return False
        return True


def _log_size(values: Float[np.ndarray, "quantity draw"]) -> Float[np.ndarray, "quantity draw"]:
    with np.errstate(divide="ignore"):
        return np.log(np.abs(values))


def _scale(
    product: bool,
    values: Float[np.ndarray, "quantity particle"],
    prior: Float[np.ndarray, "quantity draw"],
    weights: Float[np.ndarray, " particle"],
) -> _Scale:
    fine = [i for i, row in enumerate(values) if np.isfinite(row).all() and np.ptp(row) > 0]
    finite = np.where(np.isfinite(values), values, 0.0)
    covariance = _covariance(finite, weights)
    return _Scale(product, finite, prior, covariance, _dependent(covariance, fine))


def _dependent(covariance: Float[np.ndarray, "quantity quantity"], among: list[int]) -> tuple[int, ...]:
    """Quantities that are known far better given all others: only they can be tied.

    The sd of a quantity given the others is a lower bound of that of every formula with it.
    """
    if len(among) < 2:
        return ()
    block = covariance[np.ix_(among, among)]
    spread = np.sqrt(np.diag(block))
    values, vectors = np.linalg.eigh(block / np.outer(spread, spread))
    precision = (vectors**2) @ (1 / np.maximum(values, 1e-14))
    return tuple(i for i, p in zip(among, precision, strict=True) if p >= 1 / FAR_BETTER**2)


def _covariance(
    values: Float[np.ndarray, "quantity particle"], weights: Float[np.ndarray, " particle"]
) -> Float[np.ndarray, "quantity quantity"]:
    centred = values - (values @ weights)[:, None]
    return (centred * weights) @ centred.T


def _relative_sd(covariance: Float[np.ndarray, "member member"], factors: Float[np.ndarray, " member"]) -> float:
    """Standard deviation of a sum with these factors, over that of its best known term."""
    terms = np.abs(factors) * np.sqrt(np.diag(covariance))
    return float(np.sqrt(max(factors @ covariance @ factors, 0.0)) / max(terms.min(), 1e-300))


def _spread(covariance: Float[np.ndarray, "member member"], factors: Float[np.ndarray, " member"]) -> float:
    """Standard deviation of a sum with these factors, over that if its terms were independent."""
    return float(np.sqrt(max(factors @ covariance @ factors, 0.0) / (factors**2 @ np.diag(covariance))))


def _eigenvector(covariance: Float[np.ndarray, "member member"]) -> Float[np.ndarray, " member"]:
    """Factors of the sum with the least spread."""
    sds = np.sqrt(np.diag(covariance))
    return np.asarray(np.linalg.eigh(covariance / np.outer(sds, sds))[1][:, 0] / sds)


def _rounded(covariance: Float[np.ndarray, "member member"]) -> tuple[int, ...] | None:
    """Factors of the least spread as the smallest whole numbers that lose almost nothing; None if there are none.

    Larger numbers have to be tighter: there are more of them.
    """
    exact = _eigenvector(covariance)
    limit = LOSS * max(_spread(covariance, exact), 1e-9)
    options = set()
    for one in exact:
        for multiple in range(1, LARGEST_EXPONENT + 1):
            whole = np.rint(multiple * exact / one).astype(int)
            if np.all(whole != 0) and np.abs(whole).max() <= LARGEST_EXPONENT and gcd(*whole.tolist()) == 1:
                options.add(tuple(whole.tolist()))
    fitting = [
        option
        for option in options
        if _spread(covariance, np.array(option, float)) <= limit
        and _relative_sd(covariance, np.array(option, float)) <= FAR_BETTER / (1 + sum(map(abs, option)) - len(option))
    ]
    return min(fitting, key=lambda option: (sum(map(abs, option)), option), default=None)


# From exponents to formulas


def _independent(beliefs: Beliefs, found: list[_Found]) -> list[Combination]:
    """Those that do not follow from others, as formulas: of k/m, c/m and c/k the two that are known best."""
    chosen: list[_Found] = []
    rows: dict[bool, list[np.ndarray]] = {True: [], False: []}
    for item in sorted(found, key=lambda f: (len(f.subset), sum(map(abs, f.exponents)), f.tightness)):
        row = np.zeros(len(beliefs.names))
        row[list(item.subset)] = item.exponents
        before = rows[item.product]
        if np.linalg.matrix_rank(np.array([*before, row])) > len(before):
            before.append(row)
            chosen.append(item)
    return [_combination(beliefs, item) for item in chosen]


def _combination(beliefs: Beliefs, item: _Found) -> Combination:
    """The formula with its moments; names in alphabetical order, more of them above a fraction bar than below."""
    pairs = sorted(zip(item.subset, item.exponents, strict=True), key=lambda pair: beliefs.names[pair[0]].lower())
    first = pairs[0][1]
    turn = -1 if (first < 0 if not item.product else (sum(item.exponents), first) < (0, 0)) else 1
    subset, exponents = [i for i, _ in pairs], [turn * exponent for _, exponent in pairs]
    names, members = [beliefs.names[i] for i in subset], beliefs.values[subset]
    if item.product:
        shown, values = _signed(names, members, exponents, beliefs.weights)
        formula = product_of_powers(shown, exponents)
    else:
        values = np.array(exponents, float) @ members
        formula = sum_of_terms(names, exponents)
    alone = tuple(weighted_moments(row, beliefs.weights) for row in members)
    return Combination(formula, tuple(names), tuple(exponents), *weighted_moments(values, beliefs.weights), alone)


def _signed(
    names: Sequence[str],
    members: Float[np.ndarray, "member particle"],
    exponents: Sequence[int],
    weights: Float[np.ndarray, " particle"],
) -> tuple[list[str], Float[np.ndarray, " particle"]]:
    """A product of powers; of absolute values, with bars, where its sign is not known."""
    powers = [row ** float(exponent) for row, exponent in zip(members, exponents, strict=True)]
    values = np.prod(powers, axis=0)
    if not _has_both_signs(values, weights):
        return list(names), values
    bars = [exponent % 2 and _has_both_signs(row, weights) for row, exponent in zip(members, exponents, strict=True)]
    return [f"|{name}|" if bar else name for name, bar in zip(names, bars, strict=True)], np.abs(values)
