"""The chart of who pays, no taller than it must be: for a screen or a page that shows more than
that."""

from __future__ import annotations

from dataclasses import replace

import plotly.graph_objects as go

from engine.report.charts.panel import Choice, Panel
from engine.report.tracks import track_of
from engine.store.runs import Run

QUESTION = "Who pays?"
ROW = 41
"""Pixels that a group needs: two points, and a name with its number."""
REST = 92
"""Pixels of the legend and the axis."""
LEAST = 220


def who_pays_small(run: Run, choice: Choice) -> Panel:
    """The track's first chart under a short title, with rows as low as can be read."""
    panel = track_of(run).overview.beside[0](run, choice)
    if panel.figure is None:
        return replace(panel, question=QUESTION)
    rows = sum(1 for name in panel.figure.layout.yaxis.ticktext or () if str(name).strip())
    height = (
        min(panel.figure.layout.height, max(LEAST, REST + ROW * rows))
        if rows
        else panel.figure.layout.height
    )
    return replace(
        panel, question=QUESTION, figure=go.Figure(panel.figure).update_layout(height=height)
    )
