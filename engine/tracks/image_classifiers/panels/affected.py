"""Fig. 7: the mean AUC of the classes that the images were changed about, every arm, against the
dense model."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.columns import METHOD, readable, titled
from engine.report.charts.differences import add_differences, around_zero
from engine.report.charts.marks import hover, row_names
from engine.report.charts.panel import Choice, Panel, wrapped
from engine.report.tracks import track_of
from engine.store.runs import Run

QUESTION = "Do the classes that the images were changed about pay for the cut?"
ROW = 34
COLUMNS = (
    METHOD,
    *titled(
        speedup="target speedup",
        classes="classes",
        value="mean AUC",
        low="low",
        high="high",
        delta="change",
    ),
    *titled(delta_low="change low", delta_high="change high", n_trials="trials"),
)


def has_affected(run: Run) -> bool:
    return run.has("affected")


def affected(run: Run, choice: Choice) -> Panel:
    """A row per arm and speedup: the change of the affected classes' mean AUC, each class against
    the rest."""
    table = lookup.frame(run, "affected").merge(
        lookup.frame(run, "variants")[["variant", "method", "speedup"]]
    )
    dense, rows = table[table["variant"] == "dense"].iloc[0], table[table["variant"] != "dense"]
    classes = str(dense["classes"])
    clear = rows[rows["delta_high"] < 0]
    start = phrasing.with_interval(dense["value"], dense["low"], dense["high"], few="images")
    told = (
        f"{len(clear)} of {len(rows)} variants clearly lose"
        if len(clear)
        else "no variant clearly loses"
    )
    answer = (
        f"The mean AUC of {classes}, each against the rest, is {start} uncut; {told} some of it."
    )
    note = (
        "Mean over the classes named, one against the rest, as in the paper's Fig. 7; change"
        f" against the dense model on the same {track_of(run).items}; intervals are 95 %, over"
        " images and trials."
    )
    figure = _figure(run, choice, rows)
    return Panel("affected", QUESTION, answer, figure, readable(table, COLUMNS), note)


def _figure(run: Run, choice: Choice, rows: pd.DataFrame) -> go.Figure:
    """A point with its interval per variant."""
    figure = around_zero(choice, 110 + ROW * len(rows), "change of the mean AUC", choice.theme.ink)
    shown = rows.assign(value=rows["delta"], low=rows["delta_low"], high=rows["delta_high"])
    for place, row in enumerate(shown.to_dict("records")):
        style, said = (
            track_of(run).style(row["method"], choice.dark),
            hover(row["variant"], phrasing.change(row)),
        )
        add_differences(figure, shown.iloc[[place]], [place], style, [said], showlegend=False)
    row_names(figure, [wrapped(name, 24) for name in shown["variant"]])
    return figure
