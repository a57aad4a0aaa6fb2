"""Would published head scores come out again? For all imported models in one picture."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.report import phrasing
from engine.report.charts.marks import entry, row_names
from engine.report.charts.panel import Choice, Panel, blank, nothing, plain, wrapped
from engine.report.charts.reliability_parts import ICC_SAID, icc_figure, marker, row_of, shown
from engine.stats.reliability import repeats_of
from engine.tracks.language_models.published_scores import PublishedScores


def published(scores: Sequence[PublishedScores], choice: Choice, share: float = 0.2) -> list[Panel]:
    """ICC of one published seed per model and axis, and the overlap of what would be cut. Of
    `choice`: only `dark`."""
    question = "How far can one published seed be trusted?"
    rows = []
    for one in scores:
        for axis, part in one.table.groupby("axis"):
            wide = -part.pivot(index="head", columns="seed", values="bias_after")
            if wide.shape[1] >= 2:
                rows.append(row_of(one.model, words.axis_name(str(axis)), repeats_of(wide, share)))
    rows = [row for row in rows if not math.isnan(row["ICC"])]
    if not rows:
        return [
            nothing(
                "published_repeats", question, "That takes scores of at least two seeds per head."
            )
        ]
    table = pd.DataFrame(rows)
    means = table.groupby("name", sort=False)["ICC"].mean()
    noise = [name for name, value in means.items() if value < 0.1]
    answer = (
        f"In {len(noise)} of {len(means)} models a single seed's scores are almost only noise (mean"
        " ICC below 0.1)"
    )
    answer += f": {phrasing.listing(noise)}. " if noise else ". "
    answer += f"Highest: {means.idxmax()} (mean ICC {phrasing.correlation(means.max())})."
    note = f"{ICC_SAID} Over heads, effects as published; intervals are 95 %, bootstrap over heads."
    first = Panel(
        "published_repeats", question, answer, icc_figure(table, choice), shown(table), note
    )
    return [first, _published_overlap(table, choice, share)]


def _published_overlap(table: pd.DataFrame, choice: Choice, share: float) -> Panel:
    """Selected sets of two seeds, against chance."""
    question = f"Would two seeds cut the same {phrasing.percent(share)} of heads?"
    names = list(dict.fromkeys(table["name"]))
    figure = blank(
        choice, 150 + 46 * len(names), "share of the selected heads found again by another seed"
    )
    for place, (over, part) in enumerate(table.groupby("over", sort=False)):
        y, said = (
            [names.index(name) for name in part["name"]],
            f"%{{x:.2f}}<extra>{plain(over)}</extra>",
        )
        look = {"mode": "markers", "name": plain(over), "marker": marker(choice, place)}
        figure.add_scatter(x=part["overlap"], y=y, hovertemplate=said, **look)
    row_names(figure, [wrapped(name, 18) for name in names])
    _chance_bands(figure, table, choice, names)
    figure.update_xaxes(range=[0, 1])
    means = table.groupby("name", sort=False)["overlap"].mean()
    lucky = int((table["overlap"] <= table["chance high"]).sum())
    least, most, chance = (
        phrasing.percent(float(value))
        for value in (means.min(), means.max(), table["by chance"].mean())
    )
    answer = (
        f"Two seeds agree on {least} ({means.idxmin()}) to {most} ({means.idxmax()}) of the heads,"
        f" where chance gives {chance}. {lucky} of {len(table)} agreements are no larger than"
        " chance alone allows."
    )
    columns = [
        "name",
        "over",
        "overlap",
        "by chance",
        "chance low",
        "chance high",
        "heads",
        "seeds",
    ]
    note = (
        "By effect on bias alone, no head protected. Mean over all pairs of seeds; the grey bars"
        " are where 95 % of "
    )
    note += "random sets of this size agree."
    return Panel("published_overlap", question, answer, figure, table[columns], note)


def _chance_bands(figure: go.Figure, table: pd.DataFrame, choice: Choice, names: list[str]) -> None:
    """Per model, where random sets agree."""
    for at, name in enumerate(names):
        mine = table[table["name"] == name]
        low, high = float(mine["chance low"].min()), float(mine["chance high"].max())
        shape = {
            "type": "rect",
            "x0": low,
            "x1": high,
            "y0": at - 0.3,
            "y1": at + 0.3,
            "layer": "below",
        }
        figure.add_shape(**shape, fillcolor=choice.theme.soft, opacity=0.25, line_width=0)
    mark = {"symbol": "square", "color": choice.theme.soft, "opacity": 0.4, "size": 11}
    entry(
        figure, "random sets (95 %)", mode="markers", marker=mark, showlegend=None, hoverinfo=None
    )
