"""Formulas that are known while their members are not, on exact posteriors that are normal in logarithms."""

import numpy as np
import pytest

from probsysid.posterior.diagnostics.combinations import Beliefs, find_combinations, prior_scores
from probsysid.posterior.diagnostics.formulas import Combination

PRIOR_DRAWS, PARTICLES = 4000, 512


def ridge(
    names: str, prior_sds: list[float], *known: tuple[list[float], float], seed: int = 0, logarithms: bool = True
) -> Beliefs:
    """Weighted particles of the exact posterior where each of `known`, a sum with these factors, was measured as zero
    with such an sd.  Drawn with a wider proposal, so that weights matter."""
    random = np.random.default_rng(seed)
    spread = np.array(prior_sds)
    information = np.diag(1 / spread**2) + sum(np.outer(w, w) / sd**2 for w, sd in known)
    root = np.linalg.cholesky(np.linalg.inv(information))
    normal = 1.1 * random.standard_normal((len(spread), PARTICLES))
    weights = np.exp(-0.5 * np.sum(normal**2 * (1 - 1 / 1.1**2), axis=0))
    particles, prior = root @ normal, spread[:, None] * random.standard_normal((len(spread), PRIOR_DRAWS))
    of = np.exp if logarithms else np.asarray
    columns, before = dict(zip(names, of(particles), strict=True)), dict(zip(names, of(prior), strict=True))
    return Beliefs.of(columns, weights / weights.sum(), before)


def formulas(beliefs: Beliefs) -> list[str]:
    return [item.formula for item in find_combinations(beliefs)]


def test_a_product_of_two() -> None:
    (found,) = find_combinations(ridge("bc", [1, 1], ([1, 1], 0.003)))
    assert (found.formula, found.members, found.exponents) == ("b*c", ("b", "c"), (1, 1))
    # log(b*c) is normal with mean 0 and sd 0.003; effective particles: more than 450 of 512
    assert abs(found.mean - 1) < 4 * 0.003 / np.sqrt(450)
    assert abs(found.sd / 0.003 - 1) < 4 / np.sqrt(2 * 450)


@pytest.mark.parametrize(
    ("names", "known", "formula"),
    [
        ("km", [1, -1], "k/m"),
        ("mk", [1, -1], "k/m"),  # the order of the names does not matter
        ("ab", [2, 1], "a^2*b"),
        ("ab", [1, 0.5], "a^2*b"),  # a*sqrt(b) says the same
        ("dr", [1, -4], "r^4/d"),
        ("abc", [1, 1, 1], "a*b*c"),
        ("abc", [2, 1, -1], "a^2*b/c"),
        ("abcd", [1, 1, -1, -1], "a*b/(c*d)"),
    ],
)
def test_exponents(names: str, known: list[float], formula: str) -> None:
    assert formulas(ridge(names, [1] * len(names), (known, 0.003))) == [formula]


def test_widths_of_the_prior_do_not_matter() -> None:
    """A narrow prior of c makes b as well known: by the prior, not by the data."""
    assert formulas(ridge("bc", [3, 0.3], ([1, 1], 0.003))) == ["b*c"]


def test_three_on_one_ridge_are_known_in_two_formulas() -> None:
    """Of k/m, c/m and c/k, any two imply the third: those that are known best are stated."""
    assert formulas(ridge("mck", [0.5, 1, 0.5], ([-1, 1, 0], 0.05), ([-1, 0, 1], 0.01))) == ["k/m", "c/m"]


def test_a_ratio_of_one_is_not_a_difference_of_zero() -> None:
    for seed in range(20):
        assert formulas(ridge("km", [0.5, 0.5], ([1, -1], 0.02), seed=seed)) == ["k/m"]


def test_particles_without_weight_do_not_count() -> None:
    tied, stray = ridge("bc", [1, 1], ([1, 1], 0.003)), ridge("bc", [1, 1], ([1, 1], 100.0))
    values = np.hstack([tied.values, stray.values])
    weights = np.concatenate([tied.weights, np.zeros(PARTICLES)])
    assert formulas(Beliefs(tied.names, values, weights, tied.prior, tied.units)) == ["b*c"]


def test_others_that_are_known_are_left_out() -> None:
    assert formulas(ridge("abc", [1, 1, 1], ([1, 1, 0], 0.003), ([0, 0, 1], 0.003))) == ["a*b"]


def test_other_exponents_are_not_rounded() -> None:
    """a * b^0.77 is known to 0.3 %: a*b is not, nor is any other small power."""
    assert formulas(ridge("ab", [1, 1], ([1, 0.77], 0.003))) == []


def test_sums_of_real_numbers() -> None:
    for factors, formula in (([1, 1], "a + b"), ([-1, 1], "a - b"), ([1, 2], "a + 2*b"), ([-1, -1], "a + b")):
        (found,) = find_combinations(ridge("ab", [1, 1], (factors, 0.01), logarithms=False))
        assert found.formula == formula
        assert abs(found.mean) < 4 * 0.01 / np.sqrt(450)


def test_a_sum_of_positive_numbers() -> None:
    """Uniform on a + b = 2: a line, and far from a curve a*b = constant."""
    random = np.random.default_rng(0)
    share = random.uniform(size=PARTICLES)
    columns = {"a": 2 * share, "b": 2 - 2 * share + 0.01 * random.standard_normal(PARTICLES) + 0.05}
    prior = {name: random.uniform(0, 2, PRIOR_DRAWS) for name in "ab"}
    assert formulas(Beliefs.of(columns, np.full(PARTICLES, 1 / PARTICLES), prior)) == ["a + b"]
    different = {"a": "kg", "b": "m"}
    assert formulas(Beliefs.of(columns, np.full(PARTICLES, 1 / PARTICLES), prior, different)) == []


def signed(**columns: np.ndarray) -> list[Combination]:
    random = np.random.default_rng(3)
    prior = {name: 2 * random.standard_normal(PRIOR_DRAWS) for name in columns}
    return find_combinations(Beliefs.of(columns, np.full(PARTICLES, 1 / PARTICLES), prior))


def test_unknown_signs() -> None:
    random = np.random.default_rng(0)
    sign = np.where(random.uniform(size=PARTICLES) < 0.5, -1.0, 1.0)
    one_percent = np.exp(0.01 * random.standard_normal(PARTICLES))
    wide = np.exp(0.7 * random.standard_normal(PARTICLES))
    (size,) = signed(b=1.4 * sign * one_percent)
    assert size.formula == "|b|" and abs(size.mean - 1.4) < 4 * 0.014 / np.sqrt(PARTICLES)
    assert [item.formula for item in signed(b=2 * sign * one_percent / wide, c=wide)] == ["|b|*c"]
    assert [item.formula for item in signed(b=2 * sign * one_percent / wide, c=sign * wide)] == ["b*c"]
    assert [item.formula for item in signed(b=sign * np.sqrt(2 * one_percent / wide), c=wide)] == ["b^2*c"]


def test_two_modes_are_not_a_ridge() -> None:
    """(1, 4) and (4, 1) lie on a + b = 5 and on a*b = 4: neither is what is known."""
    random = np.random.default_rng(0)
    swapped = random.uniform(size=PARTICLES) < 0.5
    noise = 0.01 * random.standard_normal((2, PARTICLES))
    assert signed(a=np.where(swapped, 1, 4) + noise[0], b=np.where(swapped, 4, 1) + noise[1]) == []
    sizes = {name: np.where(swapped, -1.4, 1.4) + row for name, row in zip("bc", noise, strict=True)}
    assert [item.formula for item in signed(**sizes)] == ["|b|", "|c|"]  # and not b - c


def test_what_the_prior_implies_is_not_a_finding() -> None:
    random = np.random.default_rng(0)
    shares = {n: random.dirichlet(np.ones(3), n).T for n in (PARTICLES, PRIOR_DRAWS)}
    columns, prior = (dict(zip("abc", shares[n], strict=True)) for n in (PARTICLES, PRIOR_DRAWS))
    assert formulas(Beliefs.of(columns, np.full(PARTICLES, 1 / PARTICLES), prior)) == []


def test_nothing_learnt_is_no_formula() -> None:
    assert formulas(ridge("abc", [1, 1, 1], ([1, 1, 1], 10.0))) == []


def test_a_strong_correlation_of_known_quantities_is_no_alarm() -> None:
    """m to 0.5 %, k to 0.5 %, their ratio to 0.01 %: both are known."""
    assert formulas(ridge("mk", [1, 1], ([1, -1], 1e-4), ([1, 1], 1e-2))) == []


def test_false_alarms_are_rare() -> None:
    """Posteriors with random correlations that are ten times narrower than the prior in every direction: none."""
    for seed in range(200):
        random = np.random.default_rng(seed)
        count = int(random.integers(2, 9))
        axes = np.linalg.qr(random.standard_normal((count, count)))[0]
        sds = 10 ** random.uniform(-4, -1, count)
        known = [(list(axis), float(sd)) for axis, sd in zip(axes, sds, strict=True)]
        assert formulas(ridge("abcdefgh"[:count], [1] * count, *known, seed=seed)) == []


def test_scores_are_normal_and_the_same_in_all_coordinates() -> None:
    random = np.random.default_rng(0)
    prior, values = random.standard_cauchy(PRIOR_DRAWS), random.standard_cauchy(2000)
    scores = prior_scores(values, prior)
    # errors of both samples
    error = np.sqrt(1 / 2000 + 1 / PRIOR_DRAWS)
    assert abs(scores.mean()) < 4 * error
    assert abs(scores.std() - 1) < 4 * error / np.sqrt(2)
    # interpolated between neighbours of 4000 draws, in another coordinate: a gap of a few 1e-3 in level
    np.testing.assert_allclose(prior_scores(np.arctan(values), np.arctan(prior)), scores, atol=0.2)
    np.testing.assert_allclose(np.median(prior_scores(np.arctan(values), np.arctan(prior)) - scores), 0, atol=1e-3)
