"""Evolution of the posterior over the record: particles at every rejuvenation, quantiles over time."""

from dataclasses import dataclass, field

import numpy as np
import xarray as xr
from jaxtyping import Float

from probsysid._internal.statistics import weighted_quantile
from probsysid.posterior.posterior import Posterior
from probsysid.smc.ibis import IBISState, StepInfo

LEVELS = (0.05, 0.5, 0.95)


@dataclass
class PosteriorSnapshot:
    """The weighted particles after a number of samples."""

    samples: int
    theta: Float[np.ndarray, "dimension particle"]
    weights: Float[np.ndarray, " particle"]


@dataclass
class Evolution:
    """Collects snapshots: pass `note` to `identify` as its `notice`."""

    snapshots: list[PosteriorSnapshot] = field(default_factory=list)

    def note(self, run: IBISState, step: StepInfo) -> None:
        """Store the current particles."""
        self.snapshots.append(PosteriorSnapshot(run.samples, run.flat_theta, run.normalised_weights))

    def quantiles(self, posterior: Posterior) -> xr.Dataset:
        """5, 50 and 95 % quantiles of every quantity at each snapshot."""
        columns: dict[str, list[np.ndarray]] = {}
        for snapshot in self.snapshots:
            values = posterior.setup.problem.space.values(snapshot.theta)
            for name, value in values.items():
                columns.setdefault(name, []).append(weighted_quantile(np.asarray(value), snapshot.weights, LEVELS))
        return xr.Dataset(
            {name: (("samples", "level"), np.stack(rows)) for name, rows in columns.items()},
            coords={"samples": [s.samples for s in self.snapshots], "level": list(LEVELS)},
        )

    def after(self, sample: int) -> PosteriorSnapshot:
        """The particles at the arrival of a sample."""
        earlier = [s for s in self.snapshots if s.samples <= sample]
        return earlier[-1] if earlier else self.snapshots[0]
