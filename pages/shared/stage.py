"""One step of a story on a stage: large type, one picture drawn large, nothing else."""

from __future__ import annotations

import re
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from engine.core.files import ASSETS
from engine.report.charts.panel import CONFIG, Panel
from engine.report.story import Step
from pages.shared import state
from pages.shared.safe import escaped, plain

STILL: dict[str, Any] = {**CONFIG, "staticPlot": True}
"""A picture for an audience: no toolbar, nothing to point at, so that it may be scaled like any
picture."""
LARGER = 1.5
"""How much larger letters and marks are than on a page: read from the last row. On a phone as on a
page."""


def bare() -> None:
    """Hide the frame around the page and make its type large."""
    st.html(ASSETS / "stage.css")


def as_pages() -> None:
    """Several steps below each other, a page each where they are printed."""
    st.html(ASSETS / "stage_pages.css")


def show(step: Step, number: int, of: int) -> None:
    """Title, sentence, picture and footnote."""
    with st.container(key=state.key_of("stage", step.name)):
        st.html(f'<p class="pa-step{" pa-sheet" if number > 1 else ""}">{number} of {of}</p>')
        st.title(plain(step.title), anchor=False)
        st.html(f'<p class="pa-said">{escaped(step.sentence)}</p>')
        if step.picture is not None and step.picture.has_chart:
            _picture(step.name, step.picture)
        if step.footnote:
            st.html(f'<p class="pa-footnote">{escaped(step.footnote)}</p>')


def _picture(name: str, panel: Panel) -> None:
    """The chart as high as the screen has room for. Its text is its answer: no slider draws it anew
    here."""
    with st.container(key=state.key_of("stage_picture", name)):
        st.plotly_chart(
            larger(panel.whole(), 1.0 if _is_phone() else LARGER),
            width="stretch",
            height="stretch",
            theme=None,
            config=dict(STILL),
            key=state.key_of("stage_chart", name),
            alt=f"{panel.question} {panel.answer}",
        )


def _is_phone() -> bool:
    return "Mobi" in (st.context.headers.get("User-Agent") or "")


_PIXELS = {
    "size",
    "width",
    "thickness",
    "standoff",
    "l",
    "r",
    "t",
    "b",
    "yshift",
    "xshift",
    "ticklen",
}
"""Keys of a figure whose numbers are pixels where they stand for letters, marks, lines and room."""


def larger(figure: go.Figure, factor: float) -> go.Figure:
    """The figure with letters, marks, lines and margins `factor` times as large. A copy: panels are
    kept and shared."""
    plain_figure = figure.to_plotly_json()
    data = [_scaled(trace, factor, trace.get("type") == "bar") for trace in plain_figure["data"]]
    return go.Figure(
        {"data": data, "layout": _scaled(plain_figure["layout"], factor)}
    ).update_layout(height=None)


def _scaled(value: Any, factor: float, is_bar: bool = False) -> Any:
    if isinstance(value, dict):
        return {name: _part(name, part, factor, is_bar) for name, part in value.items()}
    if isinstance(value, (list, tuple)) and any(isinstance(part, (dict, str)) for part in value):
        return [_scaled(part, factor) for part in value]
    return _letters(value, factor) if isinstance(value, str) else value


def _part(name: str, part: Any, factor: float, is_bar: bool) -> Any:
    """One entry of a figure; the width of a bar is in its axis' units."""
    if name in _PIXELS and isinstance(part, (int, float)) and not (is_bar and name == "width"):
        return part * factor
    return _scaled(part, factor)


def _letters(text: str, factor: float) -> str:
    """Sizes of letters inside a label."""
    return re.sub(
        r"font-size: ?([0-9.]+)px",
        lambda found: f"font-size:{float(found[1]) * factor:.0f}px",
        text,
    )
