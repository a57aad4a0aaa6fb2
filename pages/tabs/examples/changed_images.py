"""Images that changed class in one trial or seed, with pictures where they were kept, and where
each model looks."""

from __future__ import annotations

from collections.abc import Sequence

from engine.report.charts.panel import Choice
from pages.shared import safe
from pages.shared.cache import KeptRun
from pages.shared.changed_items import Draw, Row, changed_items, outcome
from pages.shared.looks import looks
from pages.shared.navigation import Tab

PER_PAGE = 12
"""Pictures at a time."""


def draw(run: KeptRun, choice: Choice) -> None:
    def prepare(variant: str, rows: Sequence[Row], named: bool) -> Draw:
        maps = looks(run, variant, [row["image_id"] for row in rows if row["png"] is not None])

        def side(rows: Sequence[Row]) -> None:
            safe.gallery(
                [
                    safe.Shot(row["png"], *outcome(run, row, named), maps.get(row["image_id"], ()))
                    for row in rows
                ]
            )

        return side

    changed_items(run, choice, PER_PAGE, prepare)


TAB = Tab("Images", draw)
