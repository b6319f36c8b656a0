"""How far a search over a menu goes: one small frozen object with defaults that work."""

from collections.abc import Iterable
from dataclasses import dataclass

from probsysid._internal.errors import InputError
from probsysid._internal.validation import check_count, is_real, shown
from probsysid.selection.probabilities import ModelPrior, check_model_prior
from probsysid.selection.terms import Names, Terms


@dataclass(frozen=True)
class SearchOptions:
    """How a menu is searched.

    Args:
        budget: full runs.
        beam: models whose neighbours are looked at.
        width: full runs between two looks at what they found ...
        workers: ... of which so many at a time.
        reach: a model is run if screening expects it within so many units of log probability of the best.
        expansions: models whose neighbours are screened before the first run.
        model_prior: `"sizes"`: all numbers of terms are equally probable a priori; or all `"models"`.
        starts: sets of terms with which searches begin; by default none.
        screen: whether to screen; without, all neighbours are run.
    """

    budget: int = 30
    beam: int = 3
    width: int = 4
    workers: int = 1
    reach: float = 4.0
    expansions: int = 60
    model_prior: ModelPrior = "sizes"
    starts: Iterable[Iterable[str]] = ((),)
    screen: bool = True

    def __post_init__(self) -> None:
        for name in ("budget", "beam", "width", "workers", "expansions"):
            check_count(f"search: {name}", getattr(self, name))
        check_model_prior(self.model_prior)
        if not is_real(self.reach) or not self.reach >= 0:
            raise InputError(f"search: reach is {shown(self.reach)}; it must be a number, 0 or more.")
        if not isinstance(self.screen, bool):
            raise InputError(f"search: screen is {shown(self.screen)}; it must be True or False.")
        object.__setattr__(self, "starts", tuple(e if isinstance(e, str) else tuple(e) for e in self.starts))

    def checked_starts(self, terms: Terms) -> tuple[Names, ...]:
        """The sets with which searches begin, against the menu."""
        found = []
        for start in self.starts:
            if isinstance(start, str):
                raise InputError(f"starts has the entry {start!r}; each entry is a list of terms, such as ['cubic'].")
            names = frozenset(start)
            terms.chosen(names)
            if not terms.is_allowed(names):
                raise InputError(f"starts has the entry {sorted(names)}, which groups or needs do not allow.")
            found.append(names)
        if not found:
            raise InputError("starts is empty; name at least one set of terms, such as [[]] for none.")
        return tuple(dict.fromkeys(found))
