"""Who pays, small, as SVG text: a row per subgroup, before and after the cut; for cards, where a
chart is too much."""

from __future__ import annotations

import html
import math
from collections.abc import Callable

import pandas as pd

from engine.core import words
from engine.core.text import visible
from engine.core.types import Values
from engine.report.charts import lookup
from engine.report.charts.by_group import pairs
from engine.report.charts.panel import FONT, Choice
from engine.report.tracks import Measure, track_of
from engine.store.runs import Run

WIDTH, ROW, NAMES = 280, 24, 104
"""Pixels: the picture, a subgroup's row, the room of the names at its left."""
MOST = 5
"""Rows; of more subgroups the worst-off and the best-off are drawn."""


def thumbnail(run: Run, choice: Choice) -> str:
    """SVG of at most MOST rows, the worst-off on top; "" where no subgroup can be judged."""
    measure = lookup.reading(run, choice).group
    table = pairs(run, choice, measure)
    table = table[(table["verdict"] == "") & table["value_dense"].notna()]
    if table.empty:
        return ""
    if len(table) > MOST:
        table = pd.concat([table.head(MOST - 2), table.tail(2)])
    is_cut = lookup.variant_of(run, choice)["variant"] != "dense"
    values = table[["value_dense", "value"] if is_cut else ["value_dense"]]
    at, height = _scale(values), ROW * len(table) + 4
    colour = track_of(run).methods.style(choice.method, choice.dark).colour
    rows = [
        _row(row, place, at, colour, choice, is_cut)
        for place, row in enumerate(table.to_dict("records"))
    ]
    rows += _ends(measure, values, at, height, choice)
    height += 18
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}"'
        f' height="{height}" font-family="{html.escape(FONT)}" font-size="13">{"".join(rows)}</svg>'
    )


def _scale(values: pd.DataFrame) -> Callable[[float], float]:
    """From a value to its place along the picture."""
    low, high = float(values.min().min()), float(values.max().max())
    room, left = WIDTH - NAMES - 24, NAMES + 12
    return lambda value: left + room * ((value - low) / (high - low) if high > low else 0.5)


def _ends(
    measure: Measure, values: pd.DataFrame, at: Callable[[float], float], y: float, choice: Choice
) -> list[str]:
    """The smallest and the largest value below their places, and what is measured between them."""
    low, high = float(values.min().min()), float(values.max().max())
    said = [(at(low), "start", measure.number(low)), (at(high), "end", measure.number(high))]
    said += [((at(low) + at(high)) / 2, "middle", measure.name)] if high > low else []
    look = f'font-size="11.5" fill="{choice.theme.soft}"'
    return [
        f'<text x="{x:.1f}" y="{y + 11}" text-anchor="{anchor}" {look}>{html.escape(text)}</text>'
        for x, anchor, text in said
    ]


def _row(
    row: Values,
    place: int,
    at: Callable[[float], float],
    colour: str,
    choice: Choice,
    is_cut: bool,
) -> str:
    y, look, name = (
        ROW * place + ROW / 2 + 2,
        choice.theme,
        visible(words.group_name(str(row["group"]))),
    )
    name = html.escape(name if len(name) <= 13 else f"{name[:12]}…")
    before, after = at(float(row["value_dense"])), float(row["value"])
    line = f'<line x1="{NAMES}" x2="{WIDTH}" y1="{y}" y2="{y}" stroke="{look.grid}"/>'
    text = f'<text x="{NAMES - 8}" y="{y + 4.5}" text-anchor="end" fill="{look.ink}">{name}</text>'
    marks = (
        f'<circle cx="{before:.1f}" cy="{y}" r="4.5" fill="{look.paper}" stroke="{look.ink}"'
        ' stroke-width="2"/>'
    )
    if is_cut and math.isfinite(after):
        x = at(after)
        link = (
            f'<line x1="{before:.1f}" x2="{x:.1f}" y1="{y}" y2="{y}" stroke="{colour}"'
            ' stroke-width="3"/>'
        )
        marks = f'{link}{marks}<circle cx="{x:.1f}" cy="{y}" r="5.5" fill="{colour}"/>'
    return line + text + marks
