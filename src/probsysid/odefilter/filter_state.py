"""The filtering distribution of one particle, as the filter carries it from step to step."""

from typing import Any, NamedTuple

Values = Any
"""Numbers of several components: a list in `UnrolledFilter`, an array in `ArrayFilter`."""

Rows = Any
"""Rows of a matrix: lists of entries in `UnrolledFilter`, an array in `ArrayFilter`."""


class FilterState(NamedTuple):
    """A Gaussian in square-root form and the diffusion estimator's memory, in scaled coordinates.

    `UnrolledFilter` holds lists of numbers, `ArrayFilter` arrays.
    """

    mean: Values
    """Of all components, in the order of the layout, and then of coloured noise (`coloured_noise.py`)."""
    factor: Rows
    """Rows of the free components (`ODEFilter.free`) and of coloured noise: covariance = factor @ factor.T."""
    jacobian: Rows
    """Jacobian of the highest derivatives with respect to the physical components, which gives the rows of the highest
    derivatives where the ODE is imposed exactly."""
    diffusion: list[Values]
    """Memory of each coordinate's diffusion estimator."""
    variance: Values
    """Squared diffusion of the newest step, by coordinate."""
    data_part: Values
    """The part of the free components beyond the physical ones that data have put there and that the ODE does not
    explain: it is subtracted from the residuals that calibrate the diffusion.  Empty where data never reach them."""
