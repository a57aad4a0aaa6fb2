"""Where the dense and the pruned classifier look on one picture, by occlusion or by Grad-CAM."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from PIL import Image, ImageColor

from engine.classifiers.images.picture import GRAD_CAM, OCCLUSION
from engine.core import words
from engine.core.text import visible
from engine.core.types import Values
from engine.report import phrasing
from engine.report.charts.heat_map import bar_below
from engine.report.charts.kinds import heading
from engine.report.charts.panel import Choice, Panel, blank, plain
from engine.report.palette import series_colours, style_of, theme

# What a dense and a pruned classifier answer to one input: the probability of every class.


SIDES = ("dense", "pruned")


def class_chances(answer: Values, choice: Choice) -> Panel:
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


WAYS = {OCCLUSION: "Occlusion", GRAD_CAM: "Grad-CAM"}
"""Ways to see where a model looks, as a reader chooses them."""
ABOUT = {
    OCCLUSION: (
        "Occlusion hides one small square after the other and measures how much less sure the "
        "answer gets. It is slower, and can miss what is visible in two places."
    ),
    GRAD_CAM: (
        "Grad-CAM reads a late layer once: its feature maps, weighted by their effect on the "
        "answer. It is quick and coarse, and tests nothing by hiding it."
    ),
}
"""What each can and cannot say, for the reader who chooses."""

STRONGEST = 0.75
"""How much of the picture the strongest colour covers."""


def where_it_looks(answer: Values, choice: Choice) -> Panel:
    """A map per model over the picture: wine red where a place speaks for the dense model's answer,
    blue where against.

    answer: of `engine.report.one_input`.
    """
    maps = {side: np.array(answer[side]["map"]) for side in SIDES}
    target = words.quoted(words.group_name(visible(answer["target"])))
    is_cam = answer["way"] == GRAD_CAM
    ends = full_colours(answer)
    parts = tuple(
        _over(answer, one, ends[side], f"{side.capitalize()} model", is_cam, choice)
        for side, one in maps.items()
    )
    note = _about_cam(answer, target) if is_cam else _about_occlusion(answer, target)
    return Panel(
        "where_it_looks",
        f"Which parts of the picture speak for {target}?",
        _told(maps),
        None,
        _table(maps),
        note,
        parts,
    )


def full_colours(answer: Values) -> dict[str, float]:
    """The value of full colour on each model's map. One for both where values are log-odds, for
    they can be compared; each model's own for Grad-CAM, whose values are of different layers.
    """
    largest = {side: float(np.abs(answer[side]["map"]).max()) or 1.0 for side in SIDES}
    return largest if answer["way"] == GRAD_CAM else dict.fromkeys(SIDES, max(largest.values()))


def _told(maps: Mapping[str, np.ndarray]) -> str:
    """How alike the maps are, where that can be said."""
    dense, pruned = (maps[side] for side in SIDES)
    if dense.shape != pruned.shape or not all(float(np.ptp(one)) > 0 for one in (dense, pruned)):
        return ""
    together = np.corrcoef(dense.ravel(), pruned.ravel())[0, 1]
    return (
        f"The two maps correlate by {phrasing.correlation(together)}, over {dense.size:,} places."
    )


def _table(maps: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """Every place of every map."""
    parts = []
    for side, one in maps.items():
        rows, columns = np.indices(one.shape).reshape(2, -1)
        parts.append(pd.DataFrame({"row": rows, "column": columns, side: one.ravel()}))
    return parts[0].merge(parts[1], on=["row", "column"], how="outer")


def _about_occlusion(answer: Values, target: str) -> str:
    return (
        f"Occlusion: how much the log-odds of {target}, the dense model's answer, fall when a "
        f"square of {answer['window']} × {answer['window']} of {answer['size']} pixels is hidden. "
        "Where squares overlap, their mean counts. The mean colour hides a square, and no real "
        "picture looks so: a map is a hint, no proof. What is visible in two places can be "
        "hidden in either without loss, and then shows in neither."
    )


def _about_cam(answer: Values, target: str) -> str:
    read = {
        side: (
            f"{answer[side]['layer']}, {len(answer[side]['map'])} × {len(answer[side]['map'][0])}"
            " places"
        )
        for side in SIDES
    }
    layers = (
        read["dense"]
        if read["dense"] == read["pruned"]
        else (f"{read['dense']}, in the dense model, {read['pruned']}, in the pruned one")
    )
    return (
        f"Grad-CAM of the last layer that still tells places apart ({layers}). Its feature maps "
        f"are added up, each times the mean gradient of the log-odds of {target}, the dense "
        "model's answer. Evidence against the answer is shown too; the method's authors leave it "
        "out. Each map has a scale of its own, so strengths cannot be compared. The map shows "
        "where a late layer is active in favour of the answer. Nothing was hidden to test it, "
        "and places are as coarse as the layer."
    )


def _over(
    answer: Values,
    values: np.ndarray,
    end: float,
    title: str,
    is_cam: bool,
    choice: Choice,
) -> go.Figure:
    """One map over the picture, [rows, columns]; `end`: the value of full colour."""
    figure, size = blank(choice, 380), answer["size"]
    base64.b64decode(
        answer["picture"], validate=True
    )  # nothing but base64 goes into the address of an image
    figure.add_layout_image(
        source=f"data:image/png;base64,{answer['picture']}",
        xref="x",
        yref="y",
        x=0,
        y=0,
        sizex=size,
        sizey=size,
        sizing="stretch",
        layer="below",
    )
    down, across = (size / places for places in values.shape)
    ends = ["against", "0", "for"] if is_cam else [phrasing.signed(-end), "0", phrasing.signed(end)]
    figure.add_heatmap(
        z=values,
        zmin=-end,
        zmax=end,
        x=[(place + 0.5) * across for place in range(values.shape[1])],
        y=[(place + 0.5) * down for place in range(values.shape[0])],
        colorscale=_see_through(choice),
        hovertemplate="%{z:.3g}<extra></extra>",
        colorbar=bar_below(choice, [-0.86 * end, 0, 0.86 * end], ends),
    )
    figure.update_xaxes(range=[0, size], visible=False, constrain="domain")
    figure.update_yaxes(range=[size, 0], visible=False, scaleanchor="x", constrain="domain")
    heading(figure, title)
    figure.update_layout(margin={"t": 34, "b": 44})
    return figure


def _see_through(choice: Choice) -> list[list[Any]]:
    """The house's two colours, the weaker the clearer, so that the picture shows where nothing
    speaks."""
    ends = (choice.theme.diverging[0][1], choice.theme.diverging[-1][1])
    low, high = (
        ", ".join(str(int(colour[at : at + 2], 16)) for at in (1, 3, 5)) for colour in ends
    )
    return [
        [0.0, f"rgba({low}, {STRONGEST})"],
        [0.5, f"rgba({low}, 0)"],
        [0.5, f"rgba({high}, 0)"],
        [1.0, f"rgba({high}, {STRONGEST})"],
    ]


PIXELS = 128
"""A side of what is drawn."""


def overlays(answer: Values, dark: bool) -> tuple[tuple[str, bytes], ...]:
    """Each model's map over the picture: which model, and a PNG. answer: of
    `engine.report.one_input`."""
    ends = full_colours(answer)
    with Image.open(
        io.BytesIO(base64.b64decode(answer["picture"], validate=True)), formats=("PNG",)
    ) as opened:
        picture = np.asarray(
            opened.convert("RGB").resize((PIXELS, PIXELS), Image.Resampling.BICUBIC), dtype=float
        )
    return tuple(
        (side, _tinted(picture, np.array(answer[side]["map"]) / ends[side], dark)) for side in SIDES
    )


def _tinted(picture: np.ndarray, shares: np.ndarray, dark: bool) -> bytes:
    """picture: [PIXELS, PIXELS, 3] of 0 to 255; shares: [rows, columns] of −1 (against) to 1
    (for)."""
    fine = Image.fromarray(shares.astype(np.float32)).resize(
        (PIXELS, PIXELS), Image.Resampling.NEAREST
    )
    strength = np.asarray(fine, dtype=float)[..., None]
    stops = theme(dark).diverging
    against, towards = (
        np.array(ImageColor.getrgb(stop), dtype=float) for stop in (stops[0][1], stops[-1][1])
    )
    cover = STRONGEST * np.abs(strength).clip(0, 1)
    mixed = (1 - cover) * picture + cover * np.where(strength < 0, against, towards)
    memory = io.BytesIO()
    Image.fromarray(mixed.round().astype(np.uint8)).save(memory, "PNG")
    return memory.getvalue()
