"""Predicted outputs on rows of numbers."""

from collections.abc import Sequence

from probsysid._internal.array_types import Scalar
from probsysid.model.model import Model
from probsysid.model.particle import Particle
from probsysid.odefilter import linearise
from probsysid.odefilter.interval_data import IntervalData
from probsysid.odefilter.layout import Layout
from probsysid.odefilter.noise_likelihood import transformed
from probsysid.odefilter.unrolled import gaussian
from probsysid.odefilter.unrolled.gaussian import Row


def predicted_outputs(
    model: Model, layout: Layout, particle: Particle, sample: IntervalData, mean: list[Scalar], rows: list[Row]
) -> tuple[list[Row], list[Scalar]]:
    """Rows and values of the outputs as data measure them, linearised at the mean of all components."""
    scales = sample.scales
    observable = (*layout.physical, *layout.highest)
    point = [mean[i] * scales[i] for i in observable]
    split = len(layout.physical)
    inputs = [values[0] for values in sample.inputs]

    def function(x: Sequence[Scalar]) -> Sequence[Scalar]:
        outputs = model.measured(x[:split], x[split:], inputs, particle.parameters)
        return transformed(particle.noise, outputs, list(sample.outputs))

    jacobian = linearise.jacobian(function, point, model.outputs_sparsity)
    output_rows = [
        gaussian.combine(
            [gaussian.multiply(s, scales[i]) for s, i in zip(slopes, observable, strict=True)],
            [rows[i] for i in observable],
        )
        for slopes in jacobian
    ]
    return output_rows, list(function(point))
