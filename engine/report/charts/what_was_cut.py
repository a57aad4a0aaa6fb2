"""A small picture of what was cut: layers with their heads, or layers as columns with what is left
of each."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.types import Values
from engine.report import phrasing
from engine.report.charts import filter_layers, lookup
from engine.report.charts.heat_map import cells, pickable, shape_of
from engine.report.charts.kinds import HOVER, dots, entry, silent
from engine.report.charts.lookup import View
from engine.report.charts.panel import Choice, Panel, blank, needs_log, nothing, plain, wrapped
from engine.report.schema import readable
from engine.report.tracks import track_of
from engine.store.runs import Run

HEIGHT, ROW = 220, 9
"""Pixels of a picture, which stands beside others; of a row at least, where there are many."""
QUESTION = "What was cut?"
KEY = "what_was_cut"


def what_was_cut(run: Run, choice: Choice) -> Panel:
    """The chosen variant as a picture, `HEIGHT` pixels high where its rows have room there."""
    variant = lookup.variant_of(run, choice)
    if said := track_of(run).ways.instead(variant):
        return nothing(KEY, "What was done?", said)
    if not variant["n_cut"]:
        return nothing(KEY, QUESTION, f"Nothing: this is the {track_of(run).nouns.whole}.")
    if run.has("layers"):
        return _layers(run, choice, variant)
    return _heads(run, choice, variant)


def share_cut(run: Run, variant: Values) -> tuple[np.ndarray, int]:
    """How often each head of a variant is cut, 0 to 1 [units], and by how many models of it; its
    trained repeats where it has some, else itself."""
    mine = lookup.trials_behind(run, variant).to_dict("records") or [variant]
    cut = np.zeros((len(mine), run.n_units))
    for place, row in enumerate(mine):
        cut[place, lookup.cut_units(row)] = 1.0
    return cut.mean(axis=0), len(mine)


def _heads(run: Run, choice: Choice, variant: Values) -> Panel:
    """Rows are layers, layer 0 on top; an empty cell with a cross is cut."""
    share, models = share_cut(run, variant)
    heads = shape_of(run)[1]
    units = np.arange(len(share))
    table = pd.DataFrame({"layer": units // heads, "head": units % heads, "cut": share})
    if models > 1:
        table = table.rename(columns={"cut": f"share of {track_of(run).nouns.repeat}s that cut it"})
    figure = _grid(run, choice, share, models)
    label = phrasing.sentence(lookup.variant_label(run, variant))
    answer = f"{label}: {_where_said(run, share, models)}"
    return Panel(KEY, QUESTION, answer, figure, table, words.COUNTING)


def _grid(run: Run, choice: Choice, share: np.ndarray, models: int) -> go.Figure:
    layers, heads = shape_of(run)
    height = max(HEIGHT, 96 + ROW * layers)
    figure, kept = blank(choice, height, "head", "layer"), 1 - share.reshape(layers, heads)
    bounds = {
        "zmin": 0,
        "zmax": 1,
        "showscale": False,
        "hoverinfo": "skip",
        "xgap": 1 if heads > 16 else 2,
    }
    cells(figure, kept, choice.theme.sequential, **bounds, ygap=1 if layers > 8 else 2)
    gone = np.flatnonzero(share > 0.5)
    size = int(max(3, min(9, 90 / layers, 150 / heads)))
    marker = {
        "symbol": "x-thin",
        "size": size,
        "line": {"width": 2 if size > 5 else 1, "color": choice.theme.ink},
    }
    silent(figure, gone % heads, gone // heads, mode="markers", marker=marker)
    said = "cut" if models == 1 else f"cut by most {track_of(run).nouns.repeat}s"
    entry(figure, said, mode="markers", marker={**marker, "size": 9})
    colour = choice.theme.sequential[-1][1]
    entry(figure, "kept", mode="markers", marker={"symbol": "square", "size": 11, "color": colour})
    pickable(figure, choice, np.arange(layers * heads), heads, _hovers(run, share, models))
    columns, rows = (
        list(range(0, number, max(1, -(-number // room))))
        for number, room in ((heads, 16), (layers, 6))
    )
    bare = {"showgrid": False, "showline": False, "fixedrange": True}
    figure.update_xaxes(tickvals=columns, range=[-0.5, heads - 0.5], **bare)
    figure.update_yaxes(tickvals=rows, range=[layers - 0.5, -0.5], **bare)
    return figure


def _hovers(run: Run, share: np.ndarray, models: int) -> list[str]:
    heads, repeat = shape_of(run)[1], track_of(run).nouns.repeat
    found = []
    for unit, value in enumerate(share):
        said = "cut" if value else "kept"
        if models > 1:
            said = f"cut by {round(value * models)} of {phrasing.count(models, repeat)}"
        found.append(f"<b>{words.head_name(unit // heads, unit % heads)}</b><br>{said}")
    return found


def _where_said(run: Run, share: np.ndarray, models: int) -> str:
    """How many heads are cut and of which layer most, as a sentence's end."""
    layers, heads = shape_of(run)
    gone = (share > 0.5).reshape(layers, heads).sum(axis=1)
    total, most = int(gone.sum()), int(gone.max())
    text = f"{total} of {len(share)} heads {'is' if total == 1 else 'are'} cut"
    if models > 1:
        text += f" by most of {phrasing.count(models, track_of(run).nouns.repeat)}"
    where = [str(layer) for layer in np.flatnonzero(gone == most)]
    if total and len(where) < layers:
        noun, each = ("layers", ", each") if len(where) > 1 else ("layer", "")
        text += f", most in {noun} {phrasing.listing(where)} ({most} of {heads}{each})"
    return f"{text}."


def _layers(run: Run, choice: Choice, variant: Values) -> Panel:
    """Columns are layers from the input on: what is kept in colour, what is cut above it in
    grey."""
    table = filter_layers.survival_of(run, choice)
    if table.empty:
        return nothing(
            KEY, QUESTION, "This run does not say what is left of each layer for this choice."
        )
    figure, least = _columns(run, choice, table), table.loc[table["share"].idxmin()]
    kept, of = table["kept"].sum(), table["filters"].sum()
    some = phrasing.percent(round(kept / of, 3))
    answer = (
        f"{phrasing.sentence(lookup.variant_label(run, variant))}: {some} of {of:,.0f}"
        f" {least['units']} are kept, least of layer {least['layer']}"
        f" ({phrasing.percent(round(least['share'], 3))})."
    )
    shown, note = filter_layers.shown(run, table), filter_layers.note(run)
    return Panel(KEY, QUESTION, answer, figure, shown, note)


def _columns(run: Run, choice: Choice, table: pd.DataFrame) -> go.Figure:
    """Numbers kept; shares where layers differ so much in size that the small ones would not be
    seen."""
    units, by_share = table["units"].iat[0], needs_log(table["filters"].tolist())
    whole = table["filters"] if by_share else 1.0
    kept, gone = table["kept"] / whole, (table["filters"] - table["kept"]) / whole
    figure = blank(
        choice, HEIGHT, "layer, from the input on", f"share of {units}" if by_share else units
    )
    texts = [filter_layers.hover_of(row) for row in table.to_dict("records")]
    look = {
        "x": table["layer"],
        "text": texts,
        "hovertemplate": HOVER,
        "textposition": "none",
        "width": 0.72,
    }
    grey = {"color": choice.theme.band, "line": {"width": 1, "color": choice.theme.soft}}
    figure.add_bar(y=kept, name="kept", marker={"color": choice.theme.sequential[-1][1]}, **look)
    figure.add_bar(y=gone, name="cut", marker=grey, **look)
    few = list(range(0, len(table), max(1, -(-len(table) // 14))))
    figure.update_layout(barmode="stack", showlegend=True)
    figure.update_xaxes(tickvals=few, range=[-0.6, len(table) - 0.4], fixedrange=True)
    figure.update_yaxes(nticks=4, fixedrange=True, tickformat=".0%" if by_share else ",d")
    return figure


# The harm before and after the cut, each with its interval, beside what chance alone would give:
# how sure are we?


BEFORE_AFTER_KEY = "before_after"


def before_after(run: Run, choice: Choice) -> Panel:
    """A row per model: the harm with its interval; grey is the range that chance alone would give
    there."""
    view = View(run, choice)
    measure, variant = view.reading.harm, view.variant
    about = measure.of(words.axis_name(choice.measured))
    question = f"How sure is the {about}, before and after?"
    models = [(view.dense, {"model": view.track.nouns.whole, "method": "dense"})]
    if not view.is_dense:
        label = lookup.variant_label(run, variant)
        models.append((view.harm, {"model": label, "method": variant["method"]}))
    rows = [{**row, **names} for row, names in models if row and math.isfinite(row["value"])]
    if not rows:
        return nothing(BEFORE_AFTER_KEY, question, f"The {measure.name} was not measured here.")
    table = pd.DataFrame(rows)
    figure = _figure(view, table)
    if table["null_high"].map(math.isfinite).any():
        square = {"symbol": "square", "size": 12, "color": choice.theme.band}
        entry(figure, "what chance alone would give", mode="markers", marker=square)
    said = "; ".join(f"{row['model']}: {measure.with_interval(row)}" for row in rows)
    change = f"; change: {measure.change(rows[1])}" if len(rows) > 1 else ""
    shown = readable(table, "model value low high null_low null_high")
    note = lookup.caveat(run, rows[-1])
    answer = f"{phrasing.sentence(said)}{change}."
    return Panel(BEFORE_AFTER_KEY, question, answer, figure, shown, note)


def _figure(view: View, table: pd.DataFrame) -> go.Figure:
    measure, dark = view.reading.harm, view.choice.dark
    said = [
        f"<b>{plain(row['model'])}</b><br>{measure.with_interval(row)}<br>{measure.null_said(row)}"
        for row in table.to_dict("records")
    ]
    named = zip(table["method"], table["model"], strict=True)
    figure = dots(
        view.choice,
        table.assign(hover=said, size=14),
        "value",
        {method: wrapped(phrasing.sentence(name), 18) for method, name in named},
        {method: view.track.methods.style(method, dark) for method in table["method"]},
        measure.title,
        apart=0,
        zero=False,
    )
    figure.update_xaxes(rangemode="tozero")
    return figure


BEFORE_AFTER_QUESTION = "Who pays?"
BEFORE_AFTER_ROW = 41
"""Pixels that a group needs: two points, and a name with its number."""
REST = 92
"""Pixels of the legend and the axis."""
LEAST = 220


def who_pays_small(run: Run, choice: Choice) -> Panel:
    """The track's first chart under a short title, with rows as low as can be read."""
    panel = replace(track_of(run).charts.groups(run, choice), question=BEFORE_AFTER_QUESTION)
    if panel.figure is None:
        return panel
    height = panel.figure.layout.height
    if rows := sum(bool(str(name).strip()) for name in panel.figure.layout.yaxis.ticktext or ()):
        height = min(height, max(LEAST, REST + BEFORE_AFTER_ROW * rows))
    return replace(panel, figure=go.Figure(panel.figure).update_layout(height=height))
