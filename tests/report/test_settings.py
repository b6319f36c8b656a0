"""What a report reads of a posterior's settings."""

import math
from dataclasses import replace

import probsysid as ps
from probsysid.report.settings import RunSettings
from tests.study.small import fitted


def posterior() -> ps.Posterior:
    return ps.Posterior.load(fitted() / "lag-results" / "posterior.nc")


def test_the_settings_of_a_run_have_names() -> None:
    settings = RunSettings.of(posterior())
    assert (settings.model, settings.particles, settings.lost, settings.ess_threshold) == ("lag", 64, 0, 0.5)
    assert settings.version == ps.__version__
    assert settings.units["a"] == "1/s"
    assert settings.sweeps > 1 and settings.seconds > 0
    assert set(settings.uncertainty) == set(posterior().columns)


def test_every_setting_is_shown_in_one_place() -> None:
    settings = RunSettings.of(posterior())
    elsewhere = {"priors", "units", "solver_verdict", "uncertainty"}
    assert set(posterior().settings) == set(settings.listed) | elsewhere
    assert not set(settings.listed) & elsewhere


def test_an_older_file_may_lack_any_of_them() -> None:
    settings = RunSettings.of(replace(posterior(), settings={}))
    assert (settings.version, settings.created, settings.model, settings.particles) == ("", "", "", None)
    assert math.isnan(settings.sweeps) and math.isnan(settings.seconds)
    assert (settings.lost, settings.ess_threshold) == (0, 0.5)
    assert not settings.units and not settings.uncertainty and not settings.listed
