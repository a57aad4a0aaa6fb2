"""Texts that changed class in one seed of a text classifier, hidden until asked for."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from engine.report.charts.classifier_changed import keeps_answers
from engine.report.charts.panel import Choice
from pages.shared import safe, state
from pages.shared.cache import KeptRun
from pages.shared.changed_items import Draw, Row, changed_items, outcome
from pages.shared.navigation import Tab

PER_PAGE = 8
"""Texts at a time."""


def draw(run: KeptRun, choice: Choice) -> None:
    def prepare(variant: str, rows: Sequence[Row], named: bool) -> Draw:
        about = "They come from the data, and can be offensive, hateful or untrue."
        shown = st.toggle("Show the texts", key=state.SHOW_ALL, help=about)

        def side(rows: Sequence[Row]) -> None:
            for row in rows:
                _text(run, row, named, shown)

        return side

    changed_items(run, choice, PER_PAGE, prepare)


def _text(run: KeptRun, row: Row, named: bool, shown: bool) -> None:
    title, lines, _ = outcome(run, row, named)
    both = " \u2016 ".join(str(row[name]) for name in ("text", "text_b") if row.get(name))
    with st.container(border=True):
        safe.generated(both, title, "; ".join(lines), shown)


TAB = Tab("Texts", draw, keeps_answers)
