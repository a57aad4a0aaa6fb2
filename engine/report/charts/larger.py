"""A figure to be read from afar: letters, marks, lines and margins larger, the picture as large."""

from __future__ import annotations

import re
from typing import Any

import plotly.graph_objects as go

PIXELS = re.compile("size|width|thickness|standoff|[lrtb]|[xy]shift|ticklen")
"""Keys of a figure whose numbers are pixels where they stand for letters, marks, lines and room."""


def larger(figure: go.Figure, factor: float) -> go.Figure:
    """The figure with letters, marks, lines and margins `factor` times as large. A copy: panels are
    kept and shared."""
    spec = figure.to_plotly_json()
    data = [_scaled(trace, factor, trace.get("type") == "bar") for trace in spec["data"]]
    layout = _scaled(spec["layout"], factor)
    return go.Figure({"data": data, "layout": layout}).update_layout(height=None)


def _scaled(value: Any, factor: float, is_bar: bool = False) -> Any:
    """A part of a figure; the width of a bar is in its axis' units, and stays."""
    if isinstance(value, dict):
        return {
            name: part * factor
            if PIXELS.fullmatch(name)
            and isinstance(part, (int, float))
            and not (is_bar and name == "width")
            else _scaled(part, factor, is_bar)
            for name, part in value.items()
        }
    if isinstance(value, (list, tuple)) and any(isinstance(part, (dict, str)) for part in value):
        return [_scaled(part, factor) for part in value]
    return _letters(value, factor) if isinstance(value, str) else value


def _letters(text: str, factor: float) -> str:
    """Sizes of letters inside a label."""
    return re.sub(
        r"font-size: ?([0-9.]+)px",
        lambda found: f"font-size:{float(found[1]) * factor:.0f}px",
        text,
    )
