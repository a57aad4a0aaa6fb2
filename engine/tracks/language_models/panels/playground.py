"""What one answer of the playground looks like: the next token where two texts part, attention
before and after."""

from __future__ import annotations

import html
from collections.abc import Mapping

import numpy as np
import pandas as pd

from engine.core import words
from engine.core.text import visible
from engine.core.types import Values
from engine.report import phrasing
from engine.report.charts.heat_map import map_scale, token_labels, token_map
from engine.report.charts.panel import Choice, Panel, blank
from engine.report.charts.where_it_looks import SIDES, add_side, name_rows
from engine.report.palette import series_styles, style_of
from engine.tracks.language_models.words import LOOKS

QUESTION = "Which word might come next where the two models part?"


def next_token(row: Values, choice: Choice, shown: bool) -> Panel:
    """Probabilities of the next token of one row of an answer; tokens are numbered unless they are
    to be `shown`."""
    names = [_named(one["token"], place, shown) for place, one in enumerate(row["next"], 1)]
    figure = blank(choice, 90 + 34 * len(names), "probability of being drawn next")
    for side, style in zip(SIDES, _styles(choice), strict=True):
        values = [one[side] for one in row["next"]]
        drawn = ["drawn" if side in one["drawn_by"] else "" for one in row["next"]]
        hovers = [
            f"<b>{name}</b><br>{side}:"
            f" {phrasing.percent(round(value, 4))}{', drawn' if mark else ''}"
            for name, value, mark in zip(names, values, drawn, strict=True)
        ]
        add_side(figure, side, values, style, drawn, hovers)
    name_rows(figure, names)
    figure.update_xaxes(
        range=[0, 1.08 * max(one[side] for one in row["next"] for side in SIDES)], tickformat=".0%"
    )
    columns = {
        "token": [html.unescape(name) for name in names],
        **{f"{side} model": [one[side] for one in row["next"]] for side in SIDES},
        "drawn by": [" and ".join(one["drawn_by"]) for one in row["next"]],
    }
    note = (
        "The likeliest tokens of both models, after temperature and cuts of the decoding. Both "
        "drew with the same random numbers. So a small change of the probabilities can change the "
        "word, and a large one need not."
    )
    return Panel("next_token", QUESTION, _said(row), figure, pd.DataFrame(columns), note)


def _styles(choice: Choice) -> tuple[str, str]:
    """Colours of the dense and the pruned model: that of its method, where it has one."""
    own = (
        style_of(choice.method, LOOKS, choice.dark)
        if choice.method in LOOKS
        else series_styles(choice.dark)[1]
    )
    return style_of("dense", LOOKS, choice.dark).colour, own.colour


def _named(token: str, place: int, shown: bool) -> str:
    text = visible(token).strip() or "(space)"
    return html.escape(text[:24], quote=False) if shown else f"token {place}"


def _said(row: Values) -> str:
    distance = 0.5 * sum(abs(one["dense"] - one["pruned"]) for one in row["next"])
    moved = (
        f"At least {phrasing.percent(round(distance, 3))} of the probability moved to other tokens"
        " there."
    )
    if row["parts_at"] is None:
        return f"The two never part here: these are the chances of the first token. {moved}"
    return f"They part at token {row['parts_at'] + 1}. {moved}"


def attention_maps(answer: Values, choice: Choice) -> Panel:
    """Where the chosen head attends on the prompt, before and after the cut."""
    found = answer["attention"]
    labels = token_labels(found["tokens"], shown=True)
    maps = {side: np.array(found[side]) for side in SIDES if found[side] is not None}
    top = max(float(one.max()) for one in maps.values())
    parts = tuple(
        token_map(choice, one, labels, f"{side.capitalize()} model", map_scale(0.0, top))
        for side, one in maps.items()
    )
    head = words.head_name(found["layer"], found["head"])
    question = f"Where does {head} look, before and after?"
    pairs = [(row, column) for row in range(len(labels)) for column in range(row + 1)]
    columns = {
        "from": [html.unescape(labels[row]) for row, _ in pairs],
        "to": [html.unescape(labels[column]) for _, column in pairs],
        **{side: [float(one[pair]) for pair in pairs] for side, one in maps.items()},
    }
    note = (
        "Row: the token that attends; column: the one it attends to. Attention is no explanation."
        f" {words.COUNTING}"
    )
    return Panel(
        "prompt_attention", question, _moved(maps), None, pd.DataFrame(columns), note, parts
    )


def _moved(maps: Mapping[str, np.ndarray]) -> str:
    if "pruned" not in maps:
        return "The head is off in the pruned model, so it is shown before the cut only."
    moved = 0.5 * np.abs(maps["dense"] - maps["pruned"]).sum(axis=1).mean()
    if not moved:
        return "It looks at the same tokens as before: no head in an earlier layer is off."
    return (
        f"On average {phrasing.percent(round(float(moved), 3))} of what a token attends to moved"
        " elsewhere."
    )
