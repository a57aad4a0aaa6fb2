"""What a dense and a pruned classifier answer to one input: the probability of every class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

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
        figure.add_bar(
            x=values,
            y=list(range(len(classes))),
            orientation="h",
            name=f"{side} model",
            marker={"color": colour},
            text=[phrasing.percent(round(value, 3)) for value in values],
            textposition="outside",
            cliponaxis=False,
            textfont={"size": 12},
            constraintext="none",
            hoverinfo="skip",
        )
    places = list(range(len(classes)))
    figure.update_yaxes(
        tickvals=places,
        ticktext=list(map(plain, classes)),
        range=[len(classes) - 0.5, -0.5],
        showgrid=False,
    )
    figure.update_xaxes(range=[0, 1.12], tickformat=".0%", tickvals=[0, 0.25, 0.5, 0.75, 1])
    figure.update_layout(barmode="group", bargap=0.3, bargroupgap=0.05)
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
