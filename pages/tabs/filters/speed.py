"""Speed: does the promised speedup come true, and what does the cut cost?"""

from __future__ import annotations

from engine.report.charts import cost
from engine.report.charts.panel import Choice
from engine.tracks.image_classifiers.panels import speed
from pages.shared import panels
from pages.shared.cache import KeptRun
from pages.shared.navigation import Tab

SHOWN = (speed.speed, cost.cost)


def draw(run: KeptRun, choice: Choice) -> None:
    panels.beside(run, choice, *SHOWN)
    panels.look_ahead(run, SHOWN, choice)


TAB = Tab("Speed", draw)
