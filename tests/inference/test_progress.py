"""The progress bar says what is being done, and how much of the budget is left."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from probsysid import Sampler
from probsysid.inference.progress import ProgressBar
from probsysid.smc import ibis
from probsysid.smc.budget import Budget, MeteredTarget
from tests.smc.conjugate import Regression

SAMPLER = Sampler(particles=64, islands=1)


def shown(bar: ProgressBar, stream: io.StringIO) -> str:
    """What the bar looks like now."""
    stream.truncate(0)
    bar.progress.refresh()
    return stream.getvalue()


def test_what_the_bar_shows() -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=200, color_system=None)
    plain = Regression.simulated(samples=24).target()
    budget = Budget.of(100.0, None, SAMPLER.particles, plain.samples)
    target = MeteredTarget(plain, budget)
    run = ibis.start(target, SAMPLER, 0)
    with ProgressBar(True, target.samples, SAMPLER, budget, console) as bar:
        assert "compiling" in shown(bar, stream)
        run, step = ibis.step(run, target, SAMPLER)
        bar.update(run, step)
        text = shown(bar, stream)
        assert f"{run.samples}/24" in text
        assert f"rejuvenations {len(step.rejuvenations)}" in text
        assert f"budget spent {budget.spent / budget.evaluations:4.0%}" in text
        # while nothing is reported, what is spent shows all the same
        target.sweep(run.flat_theta, 24)
        assert f"budget spent {budget.spent / budget.evaluations:4.0%}" in shown(bar, stream)


def test_nothing_is_shown_unless_wanted() -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True)
    with ProgressBar(False, 10, SAMPLER, Budget(1.0), console) as bar:
        bar.progress.refresh()
    assert stream.getvalue() == ""


@pytest.mark.parametrize("spent", [0.0, 5.0, 25.0])
def test_share_of_a_budget(spent: float) -> None:
    """Evaluations or time, whichever is further."""
    budget = Budget(10.0, spent=spent)
    assert budget.share == spent / 10
    timed = replace(budget, began=budget.began - 30.0, deadline=budget.began + 10.0)
    assert timed.share == pytest.approx(max(spent / 10, 0.75), abs=0.05)
