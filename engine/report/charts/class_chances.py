"""What a dense and a pruned classifier answer to one input: the probability of every class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.text import visible
from engine.report import phrasing
from engine.report.charts.panel import Choice, Panel, blank, plain
from engine.report.palette import series_colours, style_of

SIDES = ("dense", "pruned")


def class_chances(answer: Mapping[str, Any], choice: Choice) -> Panel:
    """The probability of every class, dense beside pruned."""
    classes = [words.group_name(visible(name)) for name in answer["classes"]]
    figure = blank(choice, 110 + 44 * len(classes), "probability")
    colours = (style_of("dense", {}, choice.dark).colour, series_colours(choice.dark)[0])
    for side, colour in zip(SIDES, colours, strict=True):
        values = answer[side]["probabilities"]
        texts = [phrasing.percent(round(value, 3)) for value in values]
        add_side(figure, side, values, colour, texts)
    name_rows(figure, list(map(plain, classes)))
    figure.update_xaxes(range=[0, 1.12], tickformat=".0%", tickvals=[0, 0.25, 0.5, 0.75, 1])
    table = pd.DataFrame(
        {"class": classes, **{f"{side} model": answer[side]["probabilities"] for side in SIDES}}
    )
    said = [words.quoted(words.group_name(visible(answer[side]["answer"]))) for side in SIDES]
    same = answer["dense"]["answer"] == answer["pruned"]["answer"]
    told = (
        f"Both say {said[0]}."
        if same
        else f"The dense model says {said[0]}, the pruned one {said[1]}."
    )
    note = "A probability is the model's own claim; it need not be right that often."
    return Panel("class_chances", "What do both models answer?", told, figure, table, note)


def add_side(
    figure: go.Figure,
    side: str,
    values: Sequence[float],
    colour: str,
    texts: Sequence[str],
    hovers: Sequence[str] = (),
) -> None:
    """Bars of one model, a row each, with a text behind each bar."""
    figure.add_bar(
        x=values,
        y=list(range(len(values))),
        orientation="h",
        name=f"{side} model",
        marker={"color": colour},
        text=texts,
        textposition="outside",
        textfont={"size": 12},
        constraintext="none",
        cliponaxis=False,
        hovertext=hovers or None,
        hoverinfo="text" if hovers else "skip",
    )


def name_rows(figure: go.Figure, names: Sequence[str]) -> None:
    """Names of the rows, the first on top; the bars of a row beside each other."""
    figure.update_yaxes(
        tickvals=list(range(len(names))),
        ticktext=names,
        range=[len(names) - 0.5, -0.5],
        showgrid=False,
    )
    figure.update_layout(barmode="group", bargap=0.3, bargroupgap=0.05)
