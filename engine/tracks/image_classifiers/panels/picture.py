"""Where the dense and the pruned classifier look on one picture."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.text import visible
from engine.report import phrasing
from engine.report.charts.class_chances import SIDES
from engine.report.charts.heat_map import bar_below
from engine.report.charts.marks import heading
from engine.report.charts.panel import Choice, Panel, blank


def where_it_looks(answer: Mapping[str, Any], choice: Choice) -> Panel:
    """A map per model over the picture: orange where hiding takes from the dense model's answer, blue where it adds."""
    maps = {side: np.array(answer[side]["map"]) for side in SIDES}
    end = max(float(np.abs(one).max()) for one in maps.values()) or 1.0
    target = words.quoted(words.group_name(visible(answer["target"])))
    parts = tuple(_over(answer, one, end, f"{side.capitalize()} model", choice) for side, one in maps.items())
    rows, columns = np.indices(maps["dense"].shape).reshape(2, -1)
    table = pd.DataFrame({"row": rows, "column": columns, **{side: one.ravel() for side, one in maps.items()}})
    together = np.corrcoef(maps["dense"].ravel(), maps["pruned"].ravel())[0, 1] if _vary(maps) else float("nan")
    told = f"The two maps correlate by {phrasing.correlation(together)}." if np.isfinite(together) else ""
    window = answer["window"]
    note = (
        f"What hiding a square of {window} × {window} of {answer['size']} pixels takes from the log-odds of {target}, "
        "the dense model's answer; where squares overlap, their mean. A square is hidden by the mean colour, which no "
        "picture has: a map is a hint, no proof of what decides."
    )
    return Panel("where_it_looks", f"What of the picture speaks for {target}?", told, None, table, note, parts)


def _vary(maps: Mapping[str, np.ndarray]) -> bool:
    return all(float(np.ptp(one)) > 0 for one in maps.values())


def _over(answer: Mapping[str, Any], values: np.ndarray, end: float, title: str, choice: Choice) -> go.Figure:
    """One map over the picture, [rows, columns]; `end`: the value of full colour, the same for both."""
    figure, size = blank(choice, 380), answer["size"]
    base64.b64decode(answer["picture"], validate=True)  # nothing but base64 goes into the address of an image
    figure.add_layout_image(
        source=f"data:image/png;base64,{answer['picture']}", xref="x", yref="y", x=0, y=0, sizex=size, sizey=size,
        sizing="stretch", layer="below",
    )  # fmt: skip
    step = size / len(values)
    middles = [(place + 0.5) * step for place in range(len(values))]
    figure.add_heatmap(
        z=values, x=middles, y=middles, zmin=-end, zmax=end, opacity=0.55,
        colorscale=[list(stop) for stop in choice.theme.diverging],
        hovertemplate="%{z:.3f}<extra></extra>",
        colorbar=bar_below(choice, [-0.86 * end, 0, 0.86 * end],
                           [phrasing.signed(-end), "0", phrasing.signed(end)]),
    )  # fmt: skip
    figure.update_xaxes(range=[0, size], visible=False, constrain="domain")
    figure.update_yaxes(range=[size, 0], visible=False, scaleanchor="x", constrain="domain")
    heading(figure, title)
    figure.update_layout(margin={"t": 34, "b": 44})
    return figure
