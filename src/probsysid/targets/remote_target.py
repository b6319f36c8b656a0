"""A batch target whose particles are evaluated block by block on the workers of a cluster.

Blocks follow from the particles' number alone, all have the same number of particles, so that one program serves all of
them, and the last one is padded.  Small states come back with the energies.  Large ones stay on the workers; `advance`
then says which columns of which states a block needs.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from jaxtyping import Float, PyTree

from probsysid._internal.array_types import Numbers
from probsysid.data.record import Record
from probsysid.parallel.columns import RemoteColumns
from probsysid.parallel.executor import RemoteExecutor
from probsysid.parallel.published import packed
from probsysid.smc.budget import PILOT_COST
from probsysid.targets.block_tasks import Recipe, Where, advance_block, errors_block, sweep_block
from probsysid.targets.filter_target import FilterTarget
from probsysid.targets.integrators import RungeKutta

Points = Float[np.ndarray, "dimension particle"]


class RemoteTarget:
    """Evaluates the particles of a target on the workers of an executor.

    Args:
        target: what is evaluated.
        records: the data.
        executor: its workers.
        block: particles per task.
    """

    def __init__(self, target: FilterTarget, records: tuple[Record, ...], executor: RemoteExecutor, block: int):
        self.target = target
        self.records = records
        self.executor = executor
        self.block = block
        size = target.solver.layout(target.problem.model).size
        pilot = isinstance(target.integrator, RungeKutta)
        self.keep = not pilot and 4 * size * (size + 3) * block > executor.exchange.largest_fetched
        """Whether states stay on the workers."""
        self._price = target.substeps * (1 / PILOT_COST if pilot else max(1.0, (size / 4) ** 3))

    def worthwhile(self, particles: int, samples: int) -> bool:
        """Whether filtering this much takes longer than sending it."""
        return self.keep or self._price * particles * samples >= self.executor.exchange.least_work

    def sweep(self, theta: Numbers, stop: int) -> tuple[PyTree, np.ndarray, np.ndarray]:
        """`Target.sweep`."""
        theta = np.asarray(theta)
        calls = [(*self._what, part, stop) for part in self._parts(theta)]
        states, values = self.executor.evaluate(sweep_block, calls, calls, keep=self.keep)
        likelihood, energy = np.concatenate(values, axis=-1)[:, : theta.shape[-1]]
        return self._joined(states, theta.shape[-1]), likelihood, energy

    def advance(self, state: PyTree, theta: Numbers, first: int, last: int) -> tuple[PyTree, np.ndarray]:
        """`Target.advance`."""
        theta = np.asarray(theta)
        parts = self._parts(theta)
        anew = [(*self._what, part, first, last, None) for part in parts]
        needed = first not in self.target.offsets
        calls = [
            (*self._what, part, first, last, *(self._needed(state, k) if needed else (None,)))
            for k, part in enumerate(parts)
        ]
        states, values = self.executor.evaluate(advance_block, calls, anew, keep=self.keep)
        energies = np.concatenate(values, axis=-1)[:, : theta.shape[-1]]
        return self._joined(states, theta.shape[-1]), energies

    def one_step_errors(self, theta: Points, weights: Float[np.ndarray, " particle"]) -> tuple[np.ndarray, ...]:
        """`BatchTarget.one_step_errors`, summed block by block."""
        theta = np.asarray(theta)
        padding = np.zeros(-theta.shape[-1] % self.block)
        shares = np.split(np.concatenate([weights, padding]), -(-theta.shape[-1] // self.block))
        calls = [(*self._what, part, share) for part, share in zip(self._parts(theta), shares, strict=True)]
        _, values = self.executor.evaluate(errors_block, calls, calls, keep=False)
        return tuple(np.sum(of_record, axis=0) for of_record in zip(*values, strict=True))

    def _joined(self, states: Sequence[PyTree], particles: int) -> PyTree:
        """The states of all blocks as one, without the padding."""
        if self.keep:
            return RemoteColumns.of(states, self.block, particles)
        return np.concatenate(states, axis=-1)[:, :particles]

    @property
    def _what(self) -> tuple[str, int]:
        return self._digest, self.target.substeps

    @cached_property
    def _digest(self) -> str:
        target = self.target
        recipe = Recipe(
            type(target), target.problem, target.solver, target.integrator, self.records, self.block, target.batching
        )
        model = target.problem.model
        functions = (model.dynamics, model.outputs, *target.problem.priors.values())
        return self.executor.publish(packed(tuple(recipe), functions))

    def _parts(self, theta: Points) -> list[np.ndarray]:
        """The particles of each block; the last one is filled up with copies of the last particle."""
        padding = -theta.shape[-1] % self.block
        filled = np.pad(theta, ((0, 0), (0, padding)), mode="edge") if padding else theta
        return [np.ascontiguousarray(part) for part in np.split(filled, filled.shape[-1] // self.block, axis=-1)]

    def _needed(self, state: PyTree, k: int) -> Sequence[PyTree]:
        """Where the columns of a block are, and the results of earlier tasks that they are in."""
        size = len(state) if isinstance(state, RemoteColumns) else state.shape[-1]
        positions = np.minimum(np.arange(k * self.block, (k + 1) * self.block), size - 1)
        if not isinstance(state, RemoteColumns):
            columns = np.ascontiguousarray(np.asarray(state)[:, positions])
            return Where(np.zeros(self.block, int), np.arange(self.block)), (columns, None)
        part = state.take(positions)
        return Where(part.source, part.column), *part.sources
