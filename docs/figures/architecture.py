"""The way of a sample from record to report, as a picture: `python docs/figures/architecture.py` writes it."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

STAGES = [
    ("data", "Record\ntime, inputs, outputs", "readers, intersample"),
    ("model", "Problem\nmodel + priors", "parameter_space, fingerprint"),
    ("odefilter", "VectorisedFilter\nenergy of every sample", "unrolled, arrays, smoothing"),
    ("targets", "BatchTarget, StreamTarget\nenergies of particles", "over ranges of samples"),
    ("smc", "IBISState\nweights, rejuvenation", "metropolis, evidence, islands"),
    ("posterior", "Posterior\nparticles, checks, states", "diagnostics, predict"),
    ("report", "one HTML page", "templates, figures"),
]
"""Folder, what it makes of a sample, and its main files, in the order of the data."""

WIDTH, HEIGHT, GAP = 2.35, 1.5, 0.45
BLUE, GREY, ORANGE = "#1f5a96", "#666666", "#b3541e"


def box(axes: Axes, x: float, y: float, width: float, lines: tuple[str, str, str], colour: str) -> None:
    """A folder: its name, what it makes, its main files."""
    folder, main, files = lines
    shape = FancyBboxPatch((x, y), width, HEIGHT, "round,pad=0.04,rounding_size=0.1", fc="white", ec=colour, lw=1.6)
    axes.add_patch(shape)
    middle = x + width / 2
    axes.text(middle, y + HEIGHT - 0.22, f"{folder}/", ha="center", va="center", weight="bold", color=colour, size=11)
    axes.text(middle, y + 0.72, main, ha="center", va="center", size=8.6)
    axes.text(middle, y + 0.17, files, ha="center", va="center", size=7.2, color=GREY, style="italic")


def arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], text: str = "", colour: str = GREY) -> None:
    """An arrow with a label to its right."""
    axes.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "lw": 1.5, "color": colour})
    if text:
        x, y = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
        axes.text(x + 0.08, y, text, ha="left", va="center", size=7.6, color=colour)


def draw(path: Path) -> None:
    """Write the picture."""
    figure, axes = plt.subplots(figsize=(11.5, 6.4))
    step = WIDTH + GAP
    first, second, third = 4.4, 2.2, 0.0
    places = [(k * step, first) for k in range(4)] + [(k * step, second) for k in (3, 2, 1)]
    for stage, (x, y) in zip(STAGES, places, strict=True):
        box(axes, x, y, WIDTH, stage, BLUE)
    for k in range(3):
        arrow(axes, (k * step + WIDTH + 0.05, first + HEIGHT / 2), ((k + 1) * step - 0.05, first + HEIGHT / 2))
    turn = 3 * step + WIDTH / 2
    arrow(axes, (turn, first - 0.06), (turn, second + HEIGHT + 0.06), "energies")
    for k in (3, 2):
        arrow(axes, (k * step - 0.05, second + HEIGHT / 2), ((k - 1) * step + WIDTH + 0.05, second + HEIGHT / 2))
    back = 3 * step + WIDTH
    axes.annotate(
        "",
        (back + 0.05, first + HEIGHT / 2),
        (back + 0.05, second + HEIGHT / 2),
        arrowprops={"arrowstyle": "-|>", "lw": 1.5, "color": ORANGE, "connectionstyle": "arc3,rad=0.9"},
    )
    axes.text(back + 1.25, 4.05, "moves: all\nsamples so\nfar again", size=7.6, color=ORANGE, va="center")
    below = [
        ("inference", "identify, Identifier, solve:\nrun the stages above", "progress, online"),
        ("study, benchmarks, cli", "study files and published cases in,\nfolders of results out", "schema, resolve"),
        ("_internal, parallel", "errors, files, statistics, JAX set-up;\nExecutor: threads, devices", "for all stages"),
    ]
    third_width = (4 * WIDTH + 3 * GAP - 2 * GAP) / 3
    for k, (lines, colour) in enumerate(zip(below, (ORANGE, ORANGE, GREY), strict=True)):
        box(axes, k * (third_width + GAP), third, third_width, lines, colour)
    arrow(axes, (third_width / 2, third + HEIGHT + 0.06), (third_width / 2, first - 0.1), "calls", ORANGE)
    axes.set_xlim(-0.1, back + 2.2)
    axes.set_ylim(-0.15, first + HEIGHT + 0.15)
    axes.set_axis_off()
    figure.savefig(path, dpi=150, bbox_inches="tight")


if __name__ == "__main__":
    draw(Path(__file__).with_suffix(".png"))
