"""Do scores know what heads are worth? Every score against what silencing each head alone costs."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.core.types import POOLED
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.classifier_lookup import trials_said
from engine.report.charts.columns import Column, readable, titled
from engine.report.charts.marks import add_points, bars_of, hover, row_names, title
from engine.report.charts.panel import Choice, Panel, blank, nothing, wrapped
from engine.report.charts.reliability_parts import marker
from engine.store.runs import Run
from engine.tracks.text_classifiers import words as own
from engine.tracks.text_classifiers.panels.importance import importance
from engine.tracks.text_classifiers.panels.lookup import TUNED, arm_of, head_said

METRIC = "loss"
"""What silencing a head costs is drawn in: the loss sees every text, accuracy only those that tip
over."""
COLUMNS = (
    Column("score", "score", own.importance_name),
    *titled(metric="cost in", pearson="Pearson", spearman="Spearman", slope="slope per deviation"),
    *titled(slope_low="low", slope_high="high", n_heads="heads"),
)


def score_truth(run: Run, choice: Choice) -> Panel:
    """Slope and correlation of every score; head by head for the score of the chosen arm."""
    question = "Do the scores know what each head is worth?"
    if not run.has("truth_agreement") or lookup.frame(run, "head_truth").empty:
        return nothing("score_truth", question, own.NO_TRUTH)
    table = lookup.frame(run, "truth_agreement")
    table = table[(table["seed"] == POOLED) & table["pearson"].notna()].sort_values(
        "pearson", ascending=False
    )
    mine = table[table["metric"] == METRIC]
    if mine.empty:
        return nothing(
            "score_truth", question, "No score varies over heads, so none can agree with anything."
        )
    asked = arm_of(choice.method)[1]
    score = asked if asked in set(mine["score"]) else str(mine["score"].iloc[0])
    parts = (_slopes(choice, mine), _scatter(run, choice, score))
    note = (
        f"{own.TRUTH} Costs in nats of cross-entropy, mean over {trials_said(run)}; the table has"
        " accuracy too."
    )
    answer, rest = _answer(mine, score)
    return Panel(
        "score_truth",
        question,
        answer,
        None,
        readable(table, COLUMNS),
        note,
        parts,
        True,
        more=rest,
    )


def _slopes(choice: Choice, table: pd.DataFrame) -> go.Figure:
    """A row per score: slope with its interval, the correlation beside its name."""
    figure = blank(choice, 110 + 46 * len(table), "slope: nats per standard deviation of the score")
    figure.add_vline(x=0, line={"color": choice.theme.ink, "width": 1})
    texts = [_hover(row) for row in table.to_dict("records")]
    dots = {**marker(choice, 0), "size": 10}
    error = bars_of(table, dots["color"], 1.8, "slope", "slope_low", "slope_high")
    add_points(
        figure,
        table["slope"],
        list(range(len(table))),
        texts,
        dots,
        error_x=error,
        showlegend=False,
    )
    names = [
        f"{own.importance_name(row.score)} (r\u00a0=\u00a0{phrasing.correlation(row.pearson)})"
        for row in table.itertuples()
    ]
    row_names(figure, [wrapped(name, 22) for name in names])
    return figure


def _hover(row: dict[str, Any]) -> str:
    slope = phrasing.with_interval(row["slope"], row["slope_low"], row["slope_high"], few="heads")
    both = (
        f"Pearson {phrasing.correlation(row['pearson'])}, Spearman"
        f" {phrasing.correlation(row['spearman'])}"
    )
    return hover(own.importance_name(row["score"]), f"slope {slope}", both)


def _scatter(run: Run, choice: Choice, score: str) -> go.Figure:
    """What silencing each head costs against its score, with the cost's interval."""
    truth = lookup.frame(run, "head_truth")
    truth = truth[(truth["metric"] == METRIC) & (truth["seed"] == POOLED)].set_index("unit")
    both = (
        importance(run, score, TUNED)
        .set_index("unit")[["value"]]
        .join(truth[["cost", "low", "high"]])
        .dropna()
    )
    figure = blank(choice, 360, f"{own.importance_name(score)}", "cost in nats")
    figure.add_hline(y=0, line={"color": choice.theme.soft, "width": 1})
    texts = [
        hover(
            head_said(run, unit),
            f"score {phrasing.number(row.value)}",
            f"costs {phrasing.with_interval(row.cost, row.low, row.high, few='texts')}",
        )
        for unit, row in zip(both.index, both.itertuples(), strict=True)
    ]
    dots = {**marker(choice, 0), "opacity": 0.8}
    error = bars_of(both, choice.theme.soft, 1, "cost")
    add_points(figure, both["value"], both["cost"], texts, dots, error_y=error, showlegend=False)
    title(figure, own.importance_name(score))
    figure.update_layout(margin={"t": 30})
    return figure


def _answer(table: pd.DataFrame, score: str) -> tuple[str, str]:
    """The score of the chosen arm; then the one that agrees best."""
    rows = table.set_index("score")
    best, mine = table.iloc[0], rows.loc[score]
    parts = [f"{own.importance_name(score)} {_said(mine.to_dict())}"]
    if best["score"] != score:
        parts.append(
            f"{own.importance_name(best['score'])} agrees best: it {_said(best.to_dict())}"
        )
    unknown = [
        own.importance_name(row.score) for row in table.itertuples() if not row.slope_low > 0
    ]
    if unknown and len(table) > 1:
        parts.append(f"not told apart from knowing nothing: {phrasing.listing(unknown)}")
    told = [f"{phrasing.sentence(part)}." for part in parts]
    return told[0], " ".join(told[1:])


def _said(row: dict[str, Any]) -> str:
    r = phrasing.correlation(row["pearson"])
    if not math.isfinite(row["slope_low"]):
        return f"correlates at {r} with what silencing a head costs"
    slope = (
        f"{phrasing.signed(row['slope'])}"
        f" ({phrasing.span(row['slope_low'], row['slope_high'], few='heads')})"
    )
    return (
        f"correlates at {r} with what silencing a head costs; a deviation more of it costs {slope}"
        " nats"
    )
