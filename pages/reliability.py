"""Reliability: would the scores of heads come out again? For an audit, or for published scores;
needs no model."""

from __future__ import annotations

from engine.report.tracks import track_of
from pages.shared import panels, published
from pages.shared.controls import choose
from pages.shared.frame import draw_page, heading, need_run
from pages.shared.measuring import other_judges


def page() -> None:
    heading("reliability")
    if published.source() == "published":
        published.show(lambda offer, scores, choice: offer.reliability(scores, choice))
        return
    run = need_run("reliability")
    choice = choose(run)
    first, *more = track_of(run).charts.repeats
    panels.show(run, choice, first, tuple(more[:2]), *more[2:])
    other_judges(run, choice)


draw_page(page)
