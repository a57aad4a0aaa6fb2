"""Layers: how much of each is left, and which go first."""

from __future__ import annotations

from engine.report.charts import filter_layers
from engine.report.charts.panel import Choice
from pages.shared import panels
from pages.shared.cache import KeptRun
from pages.shared.navigation import Tab

SHOWN = (filter_layers.layer_survival, filter_layers.layers_by_speedup)


def draw(run: KeptRun, choice: Choice) -> None:
    panels.beside(run, choice, *SHOWN)
    panels.look_ahead(run, SHOWN, choice)


TAB = Tab("Layers", draw)
