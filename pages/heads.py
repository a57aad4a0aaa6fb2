"""Heads: which heads add to the bias or matter to the task, which were cut, and what is known of
one head. Published scores need no audit."""

from __future__ import annotations

from pages.shared import published
from pages.shared.frame import draw_page, heading, tabbed


def page() -> None:
    if not published.asked():
        tabbed("heads")
        return
    heading("heads")
    published.source()
    kind = published.correlation()
    published.show(lambda offer, scores, choice: offer.across(scores, choice, kind))


draw_page(page)
