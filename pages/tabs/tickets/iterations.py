"""Iterations: what each cut, and what the model was worth after it."""

from __future__ import annotations

from engine.report.charts.panel import Choice
from engine.tracks.text_classifiers.panels import iterations
from pages.shared import panels
from pages.shared.cache import KeptRun, made
from pages.shared.navigation import Tab


def draw(run: KeptRun, choice: Choice) -> None:
    panels.draw(made(run, iterations.iterations, choice))
    panels.look_ahead(run, (iterations.iterations,), choice)


TAB = Tab("Iterations", draw)
