"""Heads: which heads add to the bias or matter to the task, which were cut, and what is known of
one head."""

from __future__ import annotations

from engine.core.types import AXES
from engine.report.charts.panel import Choice
from pages.shared import navigation, panels, published
from pages.shared.controls import choose, is_dark
from pages.shared.frame import begin_app, boundary, heading, need_run


def page() -> None:
    heading("heads")
    if published.asked():
        _of_files()
    else:
        run = need_run("heads")
        navigation.draw("heads", run, choose(run))


def _of_files() -> None:
    """Published scores need no audit."""
    published.source()
    kind = published.correlation()
    scores, offer = published.scores(), published.offer()
    choice = Choice(method="fasp", axis=AXES[0], level=0.2, dark=is_dark())
    for panel in offer.across(scores, choice, kind) if offer and scores else ():
        panels.draw(panel)


begin_app()
with boundary():
    page()
