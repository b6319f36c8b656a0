"""Each figure shows the numbers it was given, under their names."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import matplotlib
import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure
from scipy import stats

import probsysid as ps
from probsysid.posterior.states import States
from probsysid.posterior.summaries import correlation
from probsysid.report.figures.characteristic import plot_characteristic, plot_loop
from probsysid.report.figures.corner import plot_corner
from probsysid.report.figures.degeneracy import plot_degeneracy
from probsysid.report.figures.evolution import plot_evolution
from probsysid.report.figures.marginals import bins, plot_apart, plot_marginals, plot_prior_posterior
from probsysid.report.figures.paths import plot_paths
from probsysid.report.figures.prediction import plot_fit, plot_prediction
from probsysid.report.figures.signals import plot_signals
from probsysid.report.figures.spectrum import plot_spectrum
from tests import duffing

matplotlib.use("Agg")

TIME = np.linspace(0.0, 1.0, 200)


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    matplotlib.pyplot.close("all")


@pytest.fixture(scope="module")
def posterior() -> ps.Posterior:
    options = duffing.options(sampler=ps.Sampler(particles=64))
    return ps.identify(duffing.model, duffing.measure(60), **options)


def drawn(figure: Figure, tmp_path: Path) -> None:
    """Draw a figure to a file: labels, scales and layouts are valid."""
    figure.savefig(tmp_path / "figure.png", dpi=50)


def test_prior_and_posterior_relative_to_the_truth(posterior: ps.Posterior, tmp_path: Path) -> None:
    figure = plot_prior_posterior(posterior, list(duffing.TRUTH), duffing.TRUTH)
    drawn(figure, tmp_path)
    assert [axis.get_xlabel() for axis in figure.axes] == [f"{name} / true value" for name in duffing.TRUTH]
    assert all(axis.lines[-1].get_xdata()[0] == 1.0 for axis in figure.axes)


def test_marginals_are_of_everything_and_reach_the_truth(posterior: ps.Posterior, tmp_path: Path) -> None:
    figure = plot_marginals(posterior, tmp_path / "marginals.png", truth={"m": 3.0})
    assert (tmp_path / "marginals.png").stat().st_size > 0
    assert not matplotlib.pyplot.fignum_exists(figure.number)  # what is written is closed
    shown = {axis.get_xlabel().split(" [")[0]: axis for axis in figure.axes if axis.get_xlabel()}
    assert list(shown) == list(posterior.columns)
    low, high = shown["m"].get_xlim()
    assert low < posterior.mean("m") < 3.0 < high


def test_priors_are_drawn_where_they_allow_values(posterior: ps.Posterior) -> None:
    """The prior of m is log-normal: its exact density, from zero on, even where a wide posterior reaches below."""
    figure = plot_marginals(replace(posterior, values={**posterior.values, "m": 0.1 + 0.2 * np.arange(64.0) % 3}))
    axis = next(a for a in figure.axes if a.get_xlabel().startswith("m "))
    line = next(each for each in axis.lines if each.get_label() == "prior")
    x, density = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
    known = np.isfinite(density)
    assert x[0] < 0 and np.all(x[known] > 0) and axis.get_xlim()[0] > 0
    np.testing.assert_allclose(density[known], stats.lognorm(0.3).pdf(x[known]), rtol=1e-12)


def test_few_particles_have_few_bins() -> None:
    assert [bins(n) for n in (1, 64, 128, 100_000)] == [5, 8, 11, 30]


def test_a_fit_shows_the_measured_and_the_error(posterior: ps.Posterior, tmp_path: Path) -> None:
    simulation = posterior.simulate(posterior.records[0], particles=16)
    figure = plot_fit(simulation, zoom=slice(10, 40))
    drawn(figure, tmp_path)
    top, bottom = figure.axes
    measured = posterior.records[0].outputs["position"][10:40]
    np.testing.assert_array_equal(top.lines[0].get_ydata(), measured)
    np.testing.assert_allclose(bottom.lines[0].get_ydata(), measured - simulation.mean()[10:40])


def test_prior_and_posterior_apart(posterior: ps.Posterior, tmp_path: Path) -> None:
    names = ["m", "c"]
    figure = plot_apart(posterior, names, {"m": 1.0})
    drawn(figure, tmp_path)
    assert len(figure.axes) == 4
    density = figure.axes[2].lines[0]
    mean = np.average(density.get_xdata(), weights=density.get_ydata())
    # A kernel estimate of weighted particles has their mean, but for the few per mille of its mass where it is cut off.
    assert abs(mean - posterior.mean("m")) < 0.01 * posterior.sd("m")


def test_corner_has_all_pairs(posterior: ps.Posterior, tmp_path: Path) -> None:
    names = list(posterior.columns)
    figure = plot_corner(posterior, names, duffing.TRUTH)
    drawn(figure, tmp_path)
    assert len(figure.axes) == len(names) ** 2
    shown = figure.axes[1].texts[0].get_text()
    assert shown == f"{correlation(posterior).loc[names[0], names[1]]:+.2f}"


def test_evolution_ends_at_the_last_sample(tmp_path: Path) -> None:
    values = np.stack([np.linspace(0, 1, 30), np.linspace(1, 2, 30), np.linspace(3, 2, 30)], axis=1)
    quantiles = xr.Dataset({"k": (("samples", "level"), values)}, coords={"samples": np.arange(1, 31)})
    figure = plot_evolution(quantiles, ["k"], {"k": "N/m"}, {"k": 1.5})
    drawn(figure, tmp_path)
    middle = figure.axes[0].lines[0]
    assert middle.get_xdata()[-1] == 30
    assert middle.get_ydata()[-1] == 2.0
    assert figure.axes[0].get_ylabel() == "k [N/m]"


def test_degeneracy_marks_threshold_and_rejuvenations(tmp_path: Path) -> None:
    samples = np.arange(100, 300)
    ess = np.linspace(1.0, 0.5, 200)
    figure = plot_degeneracy(samples, np.zeros((3, 200)), np.zeros(200), ess, 0.5, [150, 250], "a [m/s^2]")
    drawn(figure, tmp_path)
    top, bottom = figure.axes
    assert bottom.lines[0].get_ydata()[-1] == 50.0
    assert {line.get_xdata()[0] for line in top.lines if line.get_color() == "0.7"} == {150, 250}


def test_paths_enlarge_a_part_and_show_it_less_its_mean(tmp_path: Path) -> None:
    mean = np.sin(6 * TIME)
    paths = mean + 0.1 * np.ones((4, 1))
    states = States(TIME, {"x": mean}, {"x": np.full(200, 0.1)}, {"x": paths}, {})
    figure = plot_paths(states, ["x"], {"x": "x [m]"}, (0.4, 0.5), {"x": mean + 0.05}, {"x": mean})
    drawn(figure, tmp_path)
    whole, part, less = figure.axes
    assert whole.get_ylabel() == "x [m]"
    assert part.get_xlim() == (0.4, 0.5)
    np.testing.assert_allclose(less.lines[-1].get_ydata(), 0.05)


def test_prediction_shows_the_error_of_the_mean(tmp_path: Path) -> None:
    measured = np.cos(6 * TIME)
    figure = plot_prediction(TIME, measured, np.stack([measured - 0.2, measured]), "y [V]", (0.2, 0.4))
    drawn(figure, tmp_path)
    np.testing.assert_allclose(figure.axes[2].lines[0].get_ydata(), 0.1)


def test_signals_name_their_parts(tmp_path: Path) -> None:
    record = ps.Record({"force": TIME}, {"position": TIME**2}, dt=0.005, units={"force": "N"})
    figure = plot_signals(record, {"training": slice(0, 50)})
    drawn(figure, tmp_path)
    assert figure.axes[0].get_ylabel() == "force [N]"
    assert figure.legends[0].get_texts()[0].get_text() == "training"


def test_white_noise_lies_on_its_line(tmp_path: Path) -> None:
    noise = 0.3 * np.random.default_rng(0).standard_normal(20000)
    figure = plot_spectrum(1000.0, noise, {"residual": noise}, "V", 0.3)
    drawn(figure, tmp_path)
    line = figure.axes[0].lines[-1].get_ydata()[0]
    # By Parseval the mean power estimates the variance, with a relative standard error of sqrt(2 / 20000) = 1 %; that
    # of its root is half as much, and 4 of them are allowed.
    assert np.sqrt(np.mean(figure.axes[0].lines[1].get_ydata() ** 2)) == pytest.approx(line, rel=0.02)


def test_characteristic_and_loop(tmp_path: Path) -> None:
    grid = np.linspace(-1, 1, 50)
    curves = np.stack([grid, 1.2 * grid])
    figure = plot_characteristic(grid, curves, "x [m]", "force [N]", points=(grid, grid))
    drawn(figure, tmp_path)
    np.testing.assert_allclose(figure.axes[0].lines[1].get_ydata(), 1.1 * grid)
    np.testing.assert_allclose(figure.axes[1].lines[0].get_ydata(), 2 * 0.1 * np.abs(grid))
    loop = plot_loop(curves, curves, "x", "z", (grid, grid))
    drawn(loop, tmp_path)
    assert len(loop.axes[0].lines) == 3
