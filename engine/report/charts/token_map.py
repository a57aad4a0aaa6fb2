"""A map between the tokens of a text, such as the attention of one head, with the tokens named at
its sides."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from engine.core.text import CONTROL
from engine.report import phrasing
from engine.report.charts.heat_map import Scale, bar_below, cells
from engine.report.charts.panel import Choice, blank, plain

SPECIAL = ("[CLS]", "[SEP]", "[PAD]", "[MASK]", "[UNK]", "<s>", "</s>", "<pad>", "<mask>", "<unk>")
"""Tokens that are no words of a text: shown also where the text is hidden."""
MANY = 40
"""Tokens from which on only some are named at the axes; the hover names all."""
LONGEST = 14
_STEERING = re.compile(rf"{CONTROL.pattern}|[\t\n]")


def token_labels(tokens: Sequence[str], shown: bool) -> list[str]:
    """Tokens as chart labels: escaped, without control characters; their places where the text is
    hidden."""
    found = []
    for place, token in enumerate(tokens):
        text = _STEERING.sub("\ufffd", token.removeprefix("\u0120"))  # RoBERTa's mark of a space
        text = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}\u2026"
        found.append(plain(text) if shown or token in SPECIAL else str(place))
    return found


def token_map(
    choice: Choice, values: np.ndarray, labels: list[str], title: str, scale: Scale
) -> go.Figure:
    """One map [tokens, tokens]: row, the token that attends; column, the one it attends to."""
    n, gap = len(labels), 1 if len(labels) <= MANY else 0
    figure = blank(choice, 150 + max(14, min(26, 620 // n)) * n, "to")
    cells(
        figure,
        values,
        scale.colours(choice.theme),
        x=list(range(n)),
        y=list(range(n)),
        zmin=scale.low,
        zmax=scale.high,
        xgap=gap,
        ygap=gap,
        hoverongaps=None,
        customdata=[[f"{row} \u2192 {column}" for column in labels] for row in labels],
        hovertemplate=f"%{{customdata}}<br>%{{z:.4f}}<extra>{title.lower()}</extra>",
        colorbar={**bar_below(choice, scale.ticks, scale.texts), "tickmode": None},
    )
    named = range(0, n, max(1, math.ceil(n / MANY)))
    ticks = {
        "tickvals": list(named),
        "ticktext": [labels[place] for place in named],
        "showline": False,
        "showgrid": False,
        "tickfont": {"size": 11},
    }
    figure.update_xaxes(**ticks, tickangle=-60, side="top", range=[-0.5, n - 0.5], title_text="")
    figure.update_yaxes(**ticks, range=[n - 0.5, -0.5])
    where = {"x": 0, "xanchor": "left", "y": 0.995, "yanchor": "top"}
    figure.update_layout(
        margin={"t": 34, "b": 40}, title={"text": f"<b>{title}</b>", "font": {"size": 14}, **where}
    )
    return figure


def map_scale(low: float, high: float) -> Scale:
    """Colours from one end, or around zero where `low` is below it; its ends are written in
    numbers."""
    inset, diverges = 0.06 * (high - low), low < 0
    ticks, texts = [low + inset, high - inset], [phrasing.number(low), phrasing.number(high)]
    if diverges:
        ticks, texts = [ticks[0], 0, ticks[1]], [texts[0], "0", f"+{texts[1]}"]
    return Scale(low, high, ticks, texts, diverges)
