"""Filters on a map: the score a method gave each one, and which were cut. One trial of one arm."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.types import at_level
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.classifier_lookup import DENSE
from engine.report.charts.filter_layers import layer_rows, map_height
from engine.report.charts.heat_map import bar_above, cells, veil
from engine.report.charts.kinds import entry, faint, silent
from engine.report.charts.panel import Choice, Panel, blank, nothing, plain
from engine.report.schema import readable
from engine.store.runs import Run, where
from engine.tracks.image_classifiers.words import said as in_words
from engine.tracks.image_classifiers.words import units_of

FEW = 40
"""Filters of the widest layer up to which every cut one gets a cross."""


def score_map(run: Run, choice: Choice, trial: int = 0) -> Panel:
    """Layer x filter; colour: score, crossed or faded: cut."""
    question = in_words(run, "Which filters does the method want to keep, and which does it cut?")
    table = filter_scores(run, choice, trial)
    if table.empty:
        return nothing(
            "filter_scores",
            question,
            in_words(run, "This run has no filter scores for this choice."),
        )
    name, at = words.method_name(choice.method), lookup.level_of(run, choice)
    cut = table[~table["kept"]]
    share = phrasing.percent(len(cut) / len(table))
    answer = (
        f"{name} at {at:g}×, trial {trial}, cuts {len(cut)} of {len(table)} {units_of(run)}"
        f" ({share})."
    )
    note = (
        "Higher scores are kept first. Colours are ranks within a layer, because scores of "
        "different layers may not be comparable. Hover for the score itself. Filters and layers "
        "are counted from 0, as in mask.json."
    )
    return Panel(
        "filter_scores",
        question,
        answer,
        _figure(choice, table, in_words(run, "filter")),
        readable(
            table,
            "layer group filter value kept",
            group=in_words(run, "first convolution"),
            filter=in_words(run, "filter"),
            value="score",
        ),
        in_words(run, note),
        more=in_words(run, _order_said(table).strip()),
    )


def filter_scores(run: Run, choice: Choice, trial: int) -> pd.DataFrame:
    """Rows of the scores table of one trial: layer, group, filter, value, kept."""
    if not run.has("scores") or choice.method == DENSE:
        return pd.DataFrame()
    table = lookup.frame(run, "scores")
    mine = where(table, method=choice.method, seed=trial)
    mine = mine[at_level(mine["speedup"], lookup.level_of(run, choice))]
    kept = mine["kept"].astype(bool)
    return mine.assign(kept=kept).sort_values(["layer", "filter"], ignore_index=True)


def _order_said(table: pd.DataFrame) -> str:
    """Whether the filters that were cut are those that scored lowest."""
    wrong = 0
    for _, rows in table.groupby("layer"):
        kept, cut = rows.loc[rows["kept"], "value"], rows.loc[~rows["kept"], "value"]
        wrong += (
            int((cut.to_numpy()[:, None] > kept.to_numpy()).any(axis=1).sum())
            if len(kept) and len(cut)
            else 0
        )
    if not wrong:
        return " In every layer these are the lowest scores."
    return (
        f" {wrong} of them score{'s' * (wrong == 1)} above a filter of the same layer that stays."
    )


def _figure(choice: Choice, table: pd.DataFrame, unit: str) -> go.Figure:
    widths = table.groupby("layer").size()
    shape = (len(widths), int(widths.max()))
    where = table["layer"].to_numpy(), table["filter"].to_numpy()
    rank, value, state = (
        np.full(shape, np.nan),
        np.full(shape, np.nan),
        np.full(shape, "", dtype=object),
    )
    rank[where], value[where] = table.groupby("layer")["value"].rank(pct=True), table["value"]
    state[where] = np.where(table["kept"], "kept", "cut")
    names = table.drop_duplicates("layer").set_index("layer")["group"]
    label = np.array([[plain(str(names[layer]))] * shape[1] for layer in names.index], dtype=object)
    figure = blank(choice, map_height(len(widths)) + 20, unit)
    said = (
        f"<b>%{{customdata[0]}}, {unit} %{{x}}</b>"
        + "<br>score %{customdata[1]:.4g}<br>%{customdata[2]}<extra></extra>"
    )
    cells(
        figure,
        rank,
        choice.theme.sequential,
        x=list(range(shape[1])),
        y=list(range(shape[0])),
        zmin=0,
        zmax=1,
        xgap=_gap(shape),
        customdata=np.stack([label, value.astype(object), state], axis=-1),
        hovertemplate=said,
        colorbar=bar_above(choice, [0.2, 0.88], ["lowest of its layer", "highest"], 0.6),
    )
    _mark_cut(figure, choice, table, shape)
    layer_rows(figure, table)
    figure.update_xaxes(range=[-0.5, shape[1] - 0.5], showline=False, ticks="")
    figure.update_xaxes(**({"dtick": 1} if shape[1] <= 9 else {"nticks": 9}))
    figure.update_layout(
        margin={"t": 48, "b": 52}, legend={"y": 1, "yanchor": "bottom", "x": 1, "xanchor": "right"}
    )
    return figure


def _mark_cut(
    figure: go.Figure, choice: Choice, table: pd.DataFrame, shape: tuple[int, int]
) -> None:
    """Cut filters are faded; in narrow models they are crossed too."""
    cut = table[~table["kept"]]
    if cut.empty:
        return
    fade = np.full(shape, np.nan)
    fade[cut["layer"], cut["filter"]] = 1.0
    veil(figure, fade, faint(choice.theme.paper, 0.72), _gap(shape))
    ink, size = choice.theme.ink, max(4, min(8, 180 // shape[1]))
    if shape[1] <= FEW:
        marker = {
            "symbol": "x-thin",
            "size": size,
            "color": ink,
            "line": {"width": 1.5, "color": ink},
        }
        silent(figure, cut["filter"], cut["layer"], mode="markers", marker=marker)
        entry(figure, "cut", mode="markers", marker=marker, hoverinfo=None)
    else:
        square = {"symbol": "square-open", "size": 10, "color": choice.theme.soft}
        entry(figure, "cut: faded", mode="markers", marker=square, hoverinfo=None)


def _gap(shape: tuple[int, int]) -> int:
    """Pixels between cells: none where a cell may be a pixel wide itself."""
    return 1 if shape[1] <= FEW else 0
