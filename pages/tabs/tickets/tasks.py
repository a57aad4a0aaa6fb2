"""Tasks: do other tasks keep the same heads, and what did the thesis print?"""

from __future__ import annotations

from engine.report.charts.panel import Choice
from engine.report.tracks import track_of
from engine.tracks.text_classifiers.panels import published, survival
from pages.shared import cache, panels
from pages.shared.cache import KeptRun, made
from pages.shared.navigation import Tab


def draw(run: KeptRun, choice: Choice) -> None:
    panels.draw(survival.between_tasks(run, choice, _others(run)))
    panels.draw_folded(made(run, published.thesis_tables, choice), "thesis")


def _others(run: KeptRun) -> tuple[KeptRun, ...]:
    """Other finished audits of the same kind."""
    mine = track_of(run).name
    ids = [summary.id for summary in cache.all_runs() if summary.id != run.id]
    return tuple(cache.open_run(run_id) for run_id in ids if cache.track_name_of(run_id) == mine)


TAB = Tab("Tasks", draw)
