"""The evidence found anew from the proposals of a rejuvenation."""

import numpy as np
import pytest
from scipy import stats

from probsysid.smc import evidence
from probsysid.smc.evidence import ProposalEvidence
from probsysid.smc.moves import IndependentMH, RandomWalk
from probsysid.smc.proposals import MomentMatchedT

PARTS, MEMBERS = 8, 4096
LOG_EVIDENCE = -3.0
WIDTH = 1.3
"""Standard deviation of proposals for a standard normal posterior."""


def ratios(x: np.ndarray, width: float = WIDTH) -> np.ndarray:
    """Log of target over density of the proposals."""
    return LOG_EVIDENCE + stats.norm.logpdf(x) - stats.norm.logpdf(x, scale=width)


def proposal_evidence(seed: int, width: float = WIDTH) -> ProposalEvidence:
    random = np.random.default_rng(seed)
    shape = (PARTS, MEMBERS)
    particles = ratios(random.standard_normal(shape), width)
    moves = [ratios(width * random.standard_normal(shape), width) for _ in range(2)]
    found = ProposalEvidence()
    for proposals in moves:
        found = found.with_more(IndependentMH(), particles, proposals)
    return found


def uncertain(seed: int = 0) -> np.ndarray:
    """A product over which the parts disagree."""
    return LOG_EVIDENCE + 0.3 * np.random.default_rng(seed).standard_normal(PARTS)


def test_it_is_right_and_parts_tell_its_error() -> None:
    found = proposal_evidence(0).better_than(uncertain())
    error = found.std(ddof=1) / np.sqrt(PARTS)
    assert abs(found.mean() - LOG_EVIDENCE) < 4 * error
    # of one population: variance of target / density over the number of proposals; the standard deviation of P normals
    # has a relative standard error of 1 / sqrt(2 (P - 1)), and 4 of them are allowed above it
    expected = np.sqrt((1 / expected_worth() - 1) / (2 * MEMBERS))
    assert found.std(ddof=1) < expected * (1 + 4 / np.sqrt(2 * (PARTS - 1)))
    assert found.std(ddof=1) > 0.1 * expected  # 4 standard errors below is less than zero: chi-square, p = 4e-7


def expected_worth() -> float:
    """Of one proposal: the inverse of the mean square of target / density."""
    return np.sqrt(2 * WIDTH**2 - 1) / WIDTH**2


def test_worth_has_a_closed_form_that_particles_and_proposals_agree_on() -> None:
    one = proposal_evidence(1)
    everything = np.concatenate(one.proposals, axis=-1)
    for particles in (one.particles, np.full((len(everything), 1), -50.0)):  # the second leaves it to the proposals
        assert evidence.proposal_ess(particles, everything) == pytest.approx(
            expected_worth() * everything.size, rel=0.02
        )


def test_particles_where_no_proposal_came_refuse_it() -> None:
    """Half of the posterior lies 8 standard deviations away from where proposals are drawn."""
    random = np.random.default_rng(2)

    def halves(x: np.ndarray) -> np.ndarray:
        log = np.logaddexp(stats.norm.logpdf(x), stats.norm.logpdf(x, loc=8.0)) - np.log(2)
        return LOG_EVIDENCE + log - stats.norm.logpdf(x, scale=WIDTH)

    x = random.standard_normal((PARTS, MEMBERS))
    proposals = halves(WIDTH * random.standard_normal((PARTS, MEMBERS)))
    product = uncertain()
    blind = ProposalEvidence().with_more(IndependentMH(), halves(x), proposals)
    assert np.all(np.abs(blind.better_than(product) - LOG_EVIDENCE + np.log(2)) < 0.1)  # it looks certain, and is wrong
    x[:, ::2] += 8.0
    seeing = ProposalEvidence().with_more(IndependentMH(), halves(x), proposals)
    assert seeing.better_than(product) is product


def test_a_product_that_parts_agree_on_better_stays() -> None:
    product = np.full(PARTS, LOG_EVIDENCE) + 1e-6 * np.arange(PARTS)
    assert proposal_evidence(0).better_than(product) is product


def test_proposals_of_a_random_walk_tell_nothing() -> None:
    product = uncertain()
    one = proposal_evidence(0)
    assert ProposalEvidence().with_more(RandomWalk(), one.particles, one.proposals[0]).better_than(product) is product
    assert one.with_more(RandomWalk(), one.particles, np.full((PARTS, MEMBERS), np.nan)) == one


def test_another_kind_of_move_starts_over() -> None:
    one = proposal_evidence(0)
    bad = ProposalEvidence(
        IndependentMH(MomentMatchedT(width=9.0)), one.particles, (np.full((PARTS, MEMBERS), -np.inf),)
    )
    for proposals in one.proposals:
        bad = bad.with_more(IndependentMH(), one.particles, proposals)
    np.testing.assert_array_equal(bad.better_than(uncertain()), one.better_than(uncertain()))


def test_lost_proposals_count_as_nothing() -> None:
    one = proposal_evidence(0)
    half = np.concatenate(one.proposals, axis=-1)
    half[:, ::2] = np.nan
    found = ProposalEvidence().with_more(IndependentMH(), one.particles, half).better_than(uncertain())
    assert np.all(np.abs(found - LOG_EVIDENCE + np.log(2)) < 0.1)


def test_nothing_but_lost_proposals() -> None:
    product = uncertain()
    lost = ProposalEvidence().with_more(
        IndependentMH(), proposal_evidence(0).particles, np.full((PARTS, MEMBERS), -np.inf)
    )
    assert lost.better_than(product) is product


def test_particles_that_are_all_lost_say_nothing_against_proposals() -> None:
    assert evidence.proposal_ess(np.full((2, 4), -np.inf), np.zeros((2, 4))) == 8
