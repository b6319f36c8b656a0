"""A progress bar on the terminal; nothing elsewhere."""

from collections.abc import Callable
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from probsysid.smc.budget import Budget
from probsysid.smc.ibis import IBISState, StepInfo
from probsysid.smc.options import Sampler


class BudgetColumn(ProgressColumn):
    """How much of the budget is spent: the one thing that changes while many moves are made at one sample."""

    def __init__(self, budget: Budget):
        super().__init__()
        self.budget = budget

    def render(self, task: Task) -> Text:
        return Text(f"budget spent {min(self.budget.share, 1.0):4.0%}" if self.budget.spent else "compiling")


class ProgressBar:
    """Samples, effective size, acceptance, rejuvenations, budget spent and time left.  Silent unless wanted and on a
    terminal."""

    def __init__(self, wanted: bool, samples: int, sampler: Sampler, budget: Budget, console: Console | None = None):
        console = console or Console(stderr=True)
        self.sampler = sampler
        self.rejuvenations = 0
        self.acceptance = float("nan")
        self.progress = Progress(
            TextColumn("[bold]samples"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[status]}"),
            BudgetColumn(budget),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            disable=not (wanted and console.is_terminal),
        )
        self.task = self.progress.add_task("samples", total=samples, status="")

    def __enter__(self) -> "ProgressBar":
        self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.stop()

    def update(self, run: IBISState, step: StepInfo) -> None:
        """Show where the run is."""
        self.rejuvenations += len(step.rejuvenations)
        if step.rejuvenations:
            self.acceptance = step.rejuvenations[-1].acceptance
        share = step.ess[-1].sum() / self.sampler.particles if len(step.ess) else float("nan")
        status = f"ESS {share:4.0%}  accepted {self.acceptance:4.0%}  rejuvenations {self.rejuvenations}"
        self.progress.update(self.task, completed=run.samples, status=status)


class Notices:
    """One line after the other that says what is being done.  Silent unless wanted and on a terminal."""

    def __init__(self, wanted: bool):
        console = Console(stderr=True)
        self.status = console.status("") if wanted and console.is_terminal else None

    def __enter__(self) -> Callable[[str], None]:
        if self.status is None:
            return lambda _: None
        self.status.start()
        return self.status.update

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.status is not None:
            self.status.stop()
