"""The sampler's settings, and what is refused about them."""

import pytest

from probsysid import InputError, Sampler
from probsysid.smc.moves import DEFAULT, PAPER, IndependentMH, RandomWalk
from probsysid.smc.proposals import StudentTMixture
from probsysid.smc.resampling import Multinomial, Residual, Systematic


def test_defaults() -> None:
    sampler = Sampler()
    assert (sampler.particles, sampler.ess, sampler.islands, sampler.island_size) == (1024, 0.5, 4, 256)
    assert sampler.move == DEFAULT
    assert sampler.resampling == Systematic()


def test_names_are_turned_into_objects() -> None:
    assert Sampler(move="random-walk").move == RandomWalk()
    assert Sampler(move="Random_Walk").move == RandomWalk()
    assert Sampler(move="mixture").move == IndependentMH(StudentTMixture())
    assert Sampler(resampling="residual").resampling == Residual()
    assert Sampler(move="random-walk") == Sampler(move=RandomWalk())


def test_the_papers_choices() -> None:
    sampler = Sampler.paper(particles=100)
    assert (sampler.particles, sampler.islands, sampler.max_moves, sampler.chain) == (100, 1, 1, 1)
    assert (sampler.move, sampler.resampling) == (PAPER, Multinomial())
    assert PAPER.proposal.degrees is None
    assert PAPER.proposal.defensive == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"particles": 2.5}, r"sampler: particles is 2\.5; it must be a whole number, 2 or more"),
        ({"particles": True}, "sampler: particles is True"),
        ({"islands": 0}, "sampler: islands is 0; it must be a whole number, 1 or more"),
        ({"chain": -1}, "sampler: chain is -1"),
        ({"max_moves": 0}, "sampler: max_moves is 0"),
        ({"ess": 1.5}, r"sampler: ess is 1\.5; it must be above 0 and at most 1"),
        ({"moved": "all"}, "sampler: moved is 'all'"),
        ({"bridge": float("nan")}, "sampler: bridge is nan"),
        ({"particles": 1000, "islands": 3}, "1000 particles do not divide into 3 islands; take 999"),
        ({"particles": 100, "islands": 2, "chain": 8}, "2 islands with chains of 8; take 96"),
        ({"particles": 4, "islands": 4}, "4 particles in 4 islands leave fewer than 2 each"),
        ({"particles": 8, "islands": 2, "chain": 4}, "leave fewer than 2 each"),
        ({"path": "likelyhood"}, "path is 'likelyhood'.*Did you mean 'likelihood'"),
    ],
)
def test_refused(settings: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Sampler(**settings)
