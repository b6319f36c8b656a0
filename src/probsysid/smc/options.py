"""The sampler's settings: one small frozen object with defaults that work."""

from dataclasses import dataclass, replace
from typing import Any, Literal

from probsysid._internal.errors import InputError, did_you_mean
from probsysid._internal.validation import check_algorithm, choose, is_real, is_whole
from probsysid.smc import moves
from probsysid.smc.moves import IndependentMH, Move, RandomWalk
from probsysid.smc.proposals import MomentMatchedT, StudentTMixture, WideAxesT
from probsysid.smc.resampling import SCHEMES, Multinomial, Resampling, Systematic
from probsysid.smc.scaled import Scaled
from probsysid.smc.transport import BestFit, Curved

MOVES: dict[str, Move] = {
    "default": moves.DEFAULT,
    "gaussian": moves.PAPER,
    "student": IndependentMH(),
    "mixture": IndependentMH(StudentTMixture()),
    "random-walk": RandomWalk(),
}
PROPOSALS = (MomentMatchedT, WideAxesT, StudentTMixture, Curved, Scaled, BestFit)
ALGORITHMS = (IndependentMH, RandomWalk, *PROPOSALS, *map(type, SCHEMES.values()))
"""Classes that settings are made of; objects of other classes are code of the user."""

PATHS = ("data", "likelihood")

SMALLEST = 8
"""Particles of the smallest island that is halved."""


@dataclass(frozen=True)
class Sampler:
    """How the posterior is sampled.

    Args:
        particles: how many, over all islands.
        ess: rejuvenate when the effective number of particles, over all islands, falls below this fraction.
        move: the MCMC kernel that diversifies resampled particles: an object from `probsysid.smc.moves`, or
            `"default"`, `"gaussian"`, `"student"`, `"mixture"`, `"random-walk"`.
        resampling: an object from `probsysid.smc.resampling`, or `"systematic"`, `"stratified"`, `"residual"`,
            `"multinomial"`.
        islands: samplers run in parallel, which share nothing but proposals; their spread gives the error of the
            evidence.
        moved: moves are repeated until this fraction of the particles has moved, and random walks until particles have
            forgotten where they were ...
        max_moves: ... or this many times; random walks that keep leading on, up to five times as many.
        bridge: a sample that takes the effective size below this fraction of the threshold is tempered.
        chain: 1, or the length of chains of the waste-free variant (Dau and Chopin 2022), which keeps every
            particle of every move.
        cross_fit: let each island be two halves that resample apart, and fit the proposals that move a half to other
            halves: keeps particles from leaving narrow regions too easily.  Islands of fewer than 8, and those that
            cannot be halved, stay whole.
        path: `"data"` processes one sample after the other; `"likelihood"` tempers the likelihood of all.
        recover: where fresh draws raise doubts, move the particles again; where these are not to be trusted, search
            for modes and sample again from there.
        budget: sweeps of all particles over the data that a run may take, half of them before it recovers.
        seconds: time that a run may take, likewise; None for any.  What is found then depends on the machine.
    """

    particles: int = 1024
    ess: float = 0.5
    move: Move | str = moves.DEFAULT
    resampling: Resampling | str = Systematic()
    islands: int = 4
    moved: float = 0.9
    max_moves: int = 10
    bridge: float = 0.5
    chain: int = 1
    cross_fit: bool = True
    path: Literal["data", "likelihood"] = "data"
    recover: bool = True
    budget: float = 1000.0
    seconds: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "move", choose("sampler: move", self.move, MOVES))
        object.__setattr__(self, "resampling", choose("sampler: resampling", self.resampling, SCHEMES))
        check_algorithm("sampler: move", self.move, Move, "probsysid.smc.moves.IndependentMH()")
        check_algorithm("sampler: resampling", self.resampling, Resampling, "probsysid.smc.resampling.Systematic()")
        if not isinstance(self.cross_fit, bool):
            raise InputError(f"sampler: cross_fit is {self.cross_fit!r}; it must be True or False.")
        for name, least in (("particles", 2), ("islands", 1), ("max_moves", 1), ("chain", 1)):
            value = getattr(self, name)
            if not is_whole(value) or value < least:
                raise InputError(f"sampler: {name} is {value!r}; it must be a whole number, {least} or more.")
        for name in ("ess", "moved", "bridge"):
            value = getattr(self, name)
            if not is_real(value) or not 0 < value <= 1:
                raise InputError(f"sampler: {name} is {value!r}; it must be above 0 and at most 1.")
        for name in ("budget", "seconds"):
            value = getattr(self, name)
            if (value is not None and not (is_real(value) and value > 0)) or (value is None and name == "budget"):
                raise InputError(f"sampler: {name} is {value!r}; it must be a number above 0.")
        if self.path not in PATHS:
            hint = did_you_mean(str(self.path), PATHS)
            raise InputError(f"sampler: path is {self.path!r}; it must be 'data' or 'likelihood'.{hint}")
        self._check_divisible()

    @classmethod
    def paper(cls, **changes: Any) -> "Sampler":
        """The choices of Longbottom, Champneys and Rogers, with the acceptance ratio complete: one Gaussian
        independent proposal per rejuvenation, multinomial resampling, one island.
        """
        chosen = cls(move=moves.PAPER, resampling=Multinomial(), islands=1, max_moves=1, cross_fit=False, recover=False)
        return replace(chosen, **changes)

    @property
    def scheme(self) -> Resampling:
        """The resampling scheme, which may be given by its name."""
        assert isinstance(self.resampling, Resampling)
        return self.resampling

    @property
    def kernel(self) -> Move:
        """The move to begin with, which may be given by its name."""
        assert isinstance(self.move, Move)
        return self.move

    @property
    def island_size(self) -> int:
        """Particles of one island."""
        return self.particles // self.islands

    @property
    def halves(self) -> int:
        """Parts that an island is made of: 2, or 1 where it stays whole."""
        return 2 if self.cross_fit and self.island_size >= SMALLEST and self.island_size % (2 * self.chain) == 0 else 1

    @property
    def populations(self) -> int:
        """Populations that resample by themselves."""
        return self.islands * self.halves

    @property
    def population_size(self) -> int:
        """Particles of one population."""
        return self.particles // self.populations

    def _check_divisible(self) -> None:
        if self.particles % (self.islands * self.chain):
            unit = self.islands * self.chain
            nearest = max(2 * unit, round(self.particles / unit) * unit)  # at least two in every island
            raise InputError(
                f"sampler: {self.particles} particles do not divide into {self.islands} islands"
                f"{f' with chains of {self.chain}' if self.chain > 1 else ''}; take {nearest}."
            )
        if self.island_size // self.chain < 2:
            raise InputError(f"sampler: {self.particles} particles in {self.islands} islands leave fewer than 2 each.")
