"""A posterior whose energies come from several hosts: each filters its own share of the particles.

To the sampler it is a target like any other.  Energies come back whole to every host, in the exact bits of the host
that computed them; the filters' states stay where they are (`smc/shares.py`).
"""

from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float

from probsysid._internal.errors import InputError
from probsysid.hosts import Company
from probsysid.smc.shares import Share, here, portion, whole
from probsysid.smc.target import sweep
from probsysid.targets.batch_target import BatchTarget


class OverHosts:
    """An experiment over the hosts of a company."""

    def __init__(self, experiment: BatchTarget, company: Company):
        self.experiment = experiment
        self.company = company
        self.adaptive = experiment.adaptive
        self.samples = experiment.samples
        self._levels: dict[int, OverHosts] = {}
        self._newest: tuple[Any, Any] = (None, None)

    @cached_property
    def _own(self) -> BatchTarget:
        """The same for this host's particles."""
        whole = self.experiment
        own = BatchTarget(whole.problem, whole.records, len(range(*portion(whole.particles).indices(whole.particles))))
        own.substeps = whole.substeps
        own.__dict__ |= {name: getattr(whole, name) for name in ("filters", "offsets", "data")}
        return own

    def at(self, level: int) -> "OverHosts":
        if level not in self._levels:
            self._levels[level] = OverHosts(self.experiment.at(level), self.company)
        return self._levels[level]

    def sample_prior(self, key: Any, count: int) -> Any:
        return self.experiment.sample_prior(key, count)

    def log_prior(self, theta: Any) -> Any:
        return self.experiment.log_prior(theta)

    def limit(self, first: int) -> int:
        return self.experiment.limit(first)

    def cost(self, stop: int) -> int:
        return self.experiment.cost(stop)

    def describe(self, sample: int) -> str:
        return self.experiment.describe(sample)

    def advance(self, state: Any, theta: Any, first: int, last: int) -> tuple[Any, Float[np.ndarray, "row particle"]]:
        count = theta.shape[-1]
        state, rows = self._own.advance(here(state, count), self._share(theta), first, last)
        energies = np.asarray(rows)[: last - first]
        return Share(state, count), whole(energies, count, f"energies of samples {first} to {last}")

    def sweep(self, theta: Any, stop: int) -> tuple[Any, np.ndarray, np.ndarray]:
        """As `browse`, with one exchange at the end instead of one a chunk."""
        count = theta.shape[-1]
        state, likelihood, energy = sweep(self._own, self._share(theta), stop)
        likelihood, energy = whole(np.stack([likelihood, energy]), count, f"likelihoods up to sample {stop}")
        return Share(state, count), likelihood, energy

    def one_step_errors(self, theta: Any, weights: np.ndarray) -> tuple[Float[np.ndarray, "sample output"], ...]:
        """As those of the experiment: the sum of every host's part of the mean."""
        parts = self._own.one_step_errors(self._share(theta), weights[portion(len(weights))])
        return tuple(np.sum(self.company.gather(part, "prediction errors"), axis=0) for part in parts)

    def _share(self, theta: Any) -> Any:
        """The same array again for the same theta: the experiment knows it by that."""
        known, share = self._newest
        if known is not theta:
            share = np.ascontiguousarray(theta[:, portion(theta.shape[-1])])
            self._newest = theta, share
        return share


def dealt_out(experiment: BatchTarget, company: Company | None, fingerprint: str) -> Any:
    """The experiment over all hosts, once they have found that they mean the same one; as it is for a host alone."""
    if company is None:
        return experiment
    marks = company.gather(np.array(fingerprint), "the problem")
    others = [str(host) for host, mark in enumerate(marks) if str(mark) != str(marks[0])]
    if others:
        raise InputError(
            f"host {', '.join(others)} has another problem than host 0: the model, priors, data, settings or seed "
            "differ. Every host needs the same files."
        )
    if experiment.particles < company.count:
        raise InputError(f"there are {experiment.particles} particles for {company.count} hosts; at least one each.")
    return OverHosts(experiment, company)
