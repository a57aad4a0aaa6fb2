"""Filters on a map: the score a method gave each one, or what each does when it is cut alone, and
which were cut. One trial of one arm."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.types import at_level
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.filter_layers import layer_rows, map_height
from engine.report.charts.heat_map import Scale, bar_above, cells, veil
from engine.report.charts.kinds import entry, faint, silent
from engine.report.charts.panel import Choice, Panel, blank, nothing, plain
from engine.report.schema import readable
from engine.store.runs import Run, where
from engine.surgery.named import widths_of
from engine.tracks.image_classifiers.effects import SMOOTH, effects_on, effects_said
from engine.tracks.image_classifiers.words import said as in_words
from engine.tracks.image_classifiers.words import units_of

FEW = 40
"""Filters of a row up to which every cut one gets a cross."""
ACROSS, MOST = 32, 2000
"""Filters in a row of the map, and of a model in all where a layer goes on in the next row; of more
a layer is one row of thin cells."""


def score_map(run: Run, choice: Choice, trial: int = 0) -> Panel:
    """Filters by layer; colour: score, crossed or faded: cut."""
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
    ranks = table.groupby("layer")["value"].rank(pct=True)
    scale = Scale(0, 1, [0.2, 0.88], ["lowest of its layer", "highest"])
    said = [f"score {value:.4g}" for value in table["value"]]
    return Panel(
        "filter_scores",
        question,
        answer,
        _figure(choice, table, in_words(run, "filter"), ranks, scale, said),
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


def effect_map(run: Run, choice: Choice, trial: int = 0, group: str = "") -> Panel:
    """What each filter does alone to a group, "" to all images."""
    whom = words.group_name(group) if group else "all images"
    question = in_words(run, f"What does each filter do to {whom} when it is cut alone?")
    rows = effects_on(run, choice.measured if group else "", group).sort_values("unit")
    widths, kept = widths_of(run), filter_scores(run, choice, trial)
    table = rows.assign(
        layer=np.repeat(range(len(widths)), [width for _, width in widths]),
        group=np.repeat([name for name, _ in widths], [width for _, width in widths]),
        filter=np.concatenate([np.arange(width) for _, width in widths]),
        kept=True if kept.empty else kept.sort_values("unit")["kept"].to_numpy(),
    )
    end = float(rows["value"].abs().quantile(0.98)) or float(rows["value"].abs().max()) or 1.0
    ticks = ["raised", f"lowered, {phrasing.signed(-end)} or more"]
    said = [
        f"log-probability {phrasing.signed(row.value)} ({phrasing.span(row.low, row.high)})"
        f"{'' if row.clear else ', no clear change'}"
        for row in rows.itertuples()
    ]
    half = float(((rows["high"] - rows["low"]) / 2).median())
    noise = (
        f"Numbers are nats of log-probability of the right class, over {rows['n'].iloc[0]:.0f}"
        f" test images. For one filter noise alone gives up to ±{phrasing.number(half)} (median)."
    )
    return Panel(
        "filter_effects",
        question,
        effects_said(run, choice.measured if group else ""),
        _figure(
            choice,
            table,
            in_words(run, "filter"),
            -table["value"],
            Scale(-end, end, [-0.9 * end, 0.6 * end], ticks, diverges=True),
            said,
        ),
        readable(
            table.assign(metric=SMOOTH),
            "layer group filter value low high q n kept",
            group=in_words(run, "first convolution"),
            filter=in_words(run, "filter"),
            value="change of log-probability",
        ),
        in_words(run, "Filters are silenced one at a time; nothing is trained again."),
        mind=in_words(run, noise),
    )


def filter_scores(run: Run, choice: Choice, trial: int) -> pd.DataFrame:
    """Rows of the scores table of one trial: layer, group, filter, value, kept."""
    table = lookup.table(run, "scores", "method seed speedup layer filter kept")
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


def _figure(
    choice: Choice,
    table: pd.DataFrame,
    unit: str,
    values: pd.Series,
    scale: Scale,
    said: list[str],
) -> go.Figure:
    """A cell per filter; values: what is coloured, said: what a cell tells, both as the table."""
    widths = table.groupby("layer").size()
    across = int(min(widths.max(), ACROSS if len(table) <= MOST else len(table)))
    tops = np.cumsum([0, *(-(-width // across) for width in widths)])
    row = tops[table["layer"]] + table["filter"].to_numpy() // across
    shape, at = (int(tops[-1]), across), (row, table["filter"].to_numpy() % across)
    colour, texts = np.full(shape, np.nan), np.full(shape, "", dtype=object)
    colour[at] = np.clip(values, scale.low, scale.high)
    state = np.where(table["kept"], "kept", "cut")
    texts[at] = [
        f"<b>{plain(str(one.group))}, {unit} {one.filter}</b><br>{text}<br>{kept}"
        for one, text, kept in zip(table.itertuples(), said, state, strict=True)
    ]
    figure = blank(choice, map_height(shape[0]) + 20)
    cells(
        figure,
        colour,
        scale.colours(choice.theme),
        x=list(range(shape[1])),
        y=list(range(shape[0])),
        zmin=scale.low,
        zmax=scale.high,
        xgap=_gap(across),
        customdata=texts,
        hovertemplate="%{customdata}<extra></extra>",
        colorbar=bar_above(choice, scale.ticks, scale.texts, 0.6),
    )
    _mark_cut(figure, choice, at, ~table["kept"].to_numpy(), shape, scale.diverges)
    layer_rows(figure, table, tops.tolist())
    figure.update_xaxes(range=[-0.5, across - 0.5], showline=False, showticklabels=False, ticks="")
    figure.update_layout(
        margin={"t": 48, "b": 24}, legend={"y": 1, "yanchor": "bottom", "x": 1, "xanchor": "right"}
    )
    return figure


def _mark_cut(
    figure: go.Figure,
    choice: Choice,
    at: tuple[np.ndarray, np.ndarray],
    cut: np.ndarray,
    shape: tuple[int, int],
    diverges: bool,
) -> None:
    """Cut filters are faded, of what they do alone a little; in rows of few they are crossed too.

    at: rows and columns."""
    if not cut.any():
        return
    fade, rows, columns = np.full(shape, np.nan), at[0][cut], at[1][cut]
    fade[rows, columns] = 1.0
    veil(figure, fade, faint(choice.theme.paper, 0.2 if diverges else 0.72), _gap(shape[1]))
    ink, size = choice.theme.ink, max(4, min(8, 180 // shape[1]))
    if shape[1] <= FEW:
        marker = {
            "symbol": "x-thin",
            "size": size,
            "color": ink,
            "line": {"width": 1.5, "color": ink},
        }
        silent(figure, columns, rows, mode="markers", marker=marker)
        entry(figure, "cut", mode="markers", marker=marker, hoverinfo=None)
    else:
        square = {"symbol": "square-open", "size": 10, "color": choice.theme.soft}
        entry(figure, "cut: faded", mode="markers", marker=square, hoverinfo=None)


def _gap(across: int) -> int:
    """Pixels between cells: none where a cell may be a pixel wide itself."""
    return 1 if across <= ACROSS else 0
