"""Scores: what each unit has, and which of them go, in one trial."""

from __future__ import annotations

from engine.report.charts.panel import Choice
from engine.tracks.image_classifiers.panels import scores
from pages.shared import panels
from pages.shared.cache import KeptRun, made
from pages.shared.changed_items import one_repeat
from pages.shared.navigation import Tab


def draw(run: KeptRun, choice: Choice) -> None:
    trial = one_repeat(run, choice, "Scores")
    options = {} if trial is None else {"trial": trial}
    panels.draw(made(run, scores.score_map, choice, **options))
    panels.look_ahead(run, (scores.score_map,), choice, {scores.score_map: options})


TAB = Tab("Scores", draw)
