"""One open page: its figures, and the callback that brings what is new a few times per second.

A browser can send clicks, ranges of axes, and a text of at most 80 printable characters for a mark, which is drawn and
written down as data.  None of it becomes a path, a command or a part of an equation.
"""

from importlib.resources import files
from typing import Any

import numpy as np
from bokeh.document import Document
from bokeh.layouts import row
from bokeh.models import ColumnDataSource, CustomJS
from bokeh.models.widgets import Button, TextInput, Toggle
from jinja2 import Environment

from probsysid.live.dashboard import panels
from probsysid.live.engine import Engine
from probsysid.live.feed import NEWEST, POINTS, Fresh
from probsysid.live.track import Track

PERIOD = 250
"""Milliseconds between updates."""

OUTER = (0.05, 0.95)
"""Quantiles of the prior that are shown."""


def build(document: Document, engine: Engine, title: str) -> None:
    """Fill a page."""
    view = View(engine)
    document.title = title
    document.template = _template()
    document.template_variables["heading"] = title
    for name, model in view.roots().items():
        model.name = name
        document.add_root(model)
    words = CustomJS(args={"status": view.status}, code=_source("status.js"))
    view.status.js_on_change("data", words)
    document.js_on_event("document_ready", CustomJS(code=_source("live.js")), words)
    document.add_periodic_callback(view.update, PERIOD)
    view.update()


def _source(name: str) -> str:
    return (files("probsysid.live.dashboard") / "templates" / name).read_text(encoding="utf-8")


def _template() -> Any:
    return Environment(autoescape=True).from_string(
        _source("live.html.jinja").replace("/*STYLE*/", _source("live.css"))
    )


class View:
    """What one page shows."""

    def __init__(self, engine: Engine):
        self._engine, self._feed = engine, engine.feed
        track = engine.tracks[0]
        self._model = track.model
        self._models = [t.name for t in engine.tracks]
        problem = track.identifier.problem
        gone = {problem.initial_name(0, name) for name in problem.model.physical_names}
        self._constants = [name for name in problem.space.names if name not in gone]
        self._samples = ColumnDataSource({name: [] for name in self._feed.samples_since(0).columns})
        numbers: dict[str, Any] = {name: [] for name in self._feed.numbers_since(0).columns}
        self._numbers = ColumnDataSource(numbers | {f"relative:{name}": [] for name in self._models})
        self._densities = {name: ColumnDataSource({"bottom": [], "top": [], "share": []}) for name in self._constants}
        self._events = ColumnDataSource({"time": [], "bottom": [], "top": [], "short": []})
        self.status = ColumnDataSource({"key": [], "text": []}, name="status")
        self._priors = _priors(track)
        self._seen, self._known, self._shown_events = 0, 0, -1
        self._paused = False
        self._said = ""

    # Figures

    def roots(self) -> dict[str, Any]:
        """The parts of the page by the name of their place in it."""
        newest, whole = panels.following(), panels.following()
        units, outputs = self._model.units, self._model.output_names
        labels = [f"{name} [{units[name]}]" if units.get(name) else name for name in outputs]
        tops = panels.outputs(self._samples, outputs, labels, newest)
        for plot in tops:
            panels.show_events(plot, self._events)
        found: dict[str, Any] = {f"output{j}": plot for j, plot in enumerate(tops)}
        found["residuals"] = panels.residuals(self._samples, outputs, newest)
        for j, plot in enumerate(panels.states(self._samples, self._model.physical_names, newest)):
            found[f"state{j}"] = plot
        for j, name in enumerate(self._constants):
            unit = units.get(name, "")
            label = f"{name} [{unit}]" if unit else name
            density, prior = self._densities[name], self._priors.get(name)
            pair = panels.constant(self._numbers, density, name, label, prior, whole)
            found[f"constant{j}"] = row(*pair, sizing_mode="stretch_width")
        particles = int(self._engine.tracks[0].identifier.run.normalised_weights.size)
        for j, plot in enumerate(panels.health(self._numbers, self._models, whole, particles)):
            found[f"health{j}"] = plot
        return found | self._controls()

    def _controls(self) -> dict[str, Any]:
        pause = Toggle(label="Pause", button_type="default", width=90)
        pause.on_change("active", lambda name, old, new: self._pause(bool(new)))
        text = TextInput(placeholder="note (optional)", max_length=80, width=150)
        mark = Button(label="Mark", button_type="default", width=80)
        mark.on_click(lambda: self._mark(text))
        snapshot = Button(label="Report", button_type="default", width=80)
        snapshot.on_click(self._snapshot)
        pause.tags = [self.status]
        return {"control0": pause, "control1": mark, "control2": text, "control3": snapshot}

    # Clicks

    def _pause(self, paused: bool) -> None:
        self._paused = paused

    def _mark(self, text: TextInput) -> None:
        self._engine.mark(str(text.value or ""))
        text.value = ""

    def _snapshot(self) -> None:
        self._said = "a report is being written"
        self._engine.snapshot(self._report_is_written)

    def _report_is_written(self, sentence: str) -> None:
        self._said = sentence

    # Updates

    def update(self) -> None:
        """Bring what is new; while it is paused, only the words at the head."""
        self._say()
        if self._paused:
            return
        self._stream_samples(self._feed.samples_since(self._seen))
        self._stream_numbers(self._feed.numbers_since(self._known))
        self._show_densities()
        self._show_events()

    def _stream_samples(self, fresh: Fresh) -> None:
        self._seen = fresh.position
        if fresh.replace:
            self._samples.data = fresh.columns
        elif len(fresh.columns["time"]):
            self._samples.stream({**fresh.columns}, rollover=NEWEST)

    def _stream_numbers(self, fresh: Fresh) -> None:
        self._known = fresh.position
        if not len(fresh.columns["time"]):
            return
        columns: dict[str, Any] = fresh.columns | panels.relative(fresh.columns, self._models)
        if fresh.replace:
            self._numbers.data = columns
        else:
            self._numbers.stream(columns, rollover=2 * POINTS)

    def _show_densities(self) -> None:
        for name, (edges, share) in self._feed.densities.items():
            source = self._densities.get(name)
            if source is not None:
                source.data = {"bottom": edges[:-1], "top": edges[1:], "share": share}

    def _show_events(self) -> None:
        events = self._feed.events
        if len(events) == self._shown_events:
            return
        self._shown_events = len(events)
        times = [event["time"] for event in events]
        levels = np.asarray(self._samples.data.get(f"measured:{self._model.output_names[0]}", []), dtype=float)
        levels = levels[np.isfinite(levels)]
        low, high = (float(levels.min()), float(levels.max())) if len(levels) else (0.0, 1.0)
        self._events.data = {
            "time": times,
            "bottom": [low] * len(times),
            "top": [high] * len(times),
            "short": [event["text"][:24] if event["kind"] == "mark" else event["kind"] for event in events],
        }

    def _say(self) -> None:
        words = sentences(self._feed.status, self._paused, self._said)
        if words != dict(zip(self.status.data["key"], self.status.data["text"], strict=True)):
            self.status.data = {"key": list(words), "text": list(words.values())}


def sentences(status: dict[str, Any], paused: bool, said: str) -> dict[str, str]:
    """What the head of the page says, by the name of its place."""
    if not status:
        return {"verdict": "waiting for samples", "level": "wait"}
    counts = status["counts"]
    troubles = [
        f"{counts[key]} {word}"
        for key, word in (
            ("gaps", "gaps"),
            ("late", "late"),
            ("duplicate", "repeated"),
            ("reordered", "out of order"),
            ("malformed", "malformed"),
            ("off_grid", "off the grid"),
            ("restarts", "new starts"),
        )
        if counts[key]
    ]
    if status["failures"]:
        verdict, level = next(f"{name}: {text}" for name, text in status["failures"].items()), "bad"
    elif status["behind"]:
        verdict, level = status["behind"], "bad"
    elif status["alarm"]:
        verdict, level = status["alarm"], "bad"
    elif not status["processed"]:
        verdict, level = "waiting for samples", "wait"
    elif status["settling"]:
        verdict, level = status["settling"], "wait"
    else:
        verdict, level = "the data fit the model", "good"
    if status["ended"]:
        verdict += "; the source has ended"
    return {
        "verdict": ("PAUSED  " if paused else "") + verdict,
        "level": level,
        "source": status["state"],
        "samples": f"{status['processed']}",
        "lag": f"{status['lag_seconds']:.2f} s",
        "load": f"{100 * status['load']:.0f} %",
        "counts": ", ".join(troubles) or "no sample missing, late or repeated",
        "problem": counts["last_problem"]
        + (f"; source held back {status['blocked']:.1f} s" if status["blocked"] > 0.1 else ""),
        "said": said,
        "leading": status["leading"],
    }


def _priors(track: Track) -> dict[str, tuple[float, float]]:
    """Quantiles of the prior of each quantity."""
    import jax

    space = track.identifier.problem.space
    values = space.values(np.asarray(space.sample(jax.random.key(0), 1000)))
    return {name: tuple(np.quantile(np.asarray(v), OUTER)) for name, v in values.items() if np.ndim(v) == 1}
