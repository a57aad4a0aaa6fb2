"""What every iteration of a procedure cut, and what the model was worth after it."""

from __future__ import annotations

import json
import math
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.columns import METHOD, readable, titled
from engine.report.charts.marks import add_points, dot, remark
from engine.report.charts.panel import Choice, Panel, blank, nothing
from engine.report.contract import Measure
from engine.report.tracks import track_of
from engine.store.runs import Run
from engine.tracks.text_classifiers.panels.lookup import DENSE, arm_of, heads_said, task

SCORED_ONCE = ("once", "one-shot-isp")
"""Procedures whose iterations are the asked levels, all cut by one scoring."""
COLUMNS = (
    METHOD,
    *titled(
        seed="seed",
        iteration="iteration",
        n_cut="heads cut",
        sparsity="share cut",
        heads="newly cut",
    ),
    *titled(
        metric="metric",
        delta="convergence delta",
        n_texts="texts scored",
        retrained="fine-tuned again",
    ),
    *titled(seconds="seconds"),
)


def iterations(run: Run, choice: Choice) -> Panel:
    """The metric after every iteration, a thin line per seed, their mean heavier."""
    question = "What did every iteration cut, and what was the model worth after it?"
    table = steps(run, choice.method)
    if table.empty:
        return nothing("tickets_iterations", question, "This run keeps no iterations of this arm.")
    measure, full = task(run), lookup.result(run, DENSE, task(run).metric)
    figure = _figure(run, choice, table, measure, full)
    answer, more = _answer(choice, table, measure, full)
    return Panel(
        "tickets_iterations",
        question,
        phrasing.sentence(answer),
        figure,
        readable(table.assign(heads=_named(run, table)), COLUMNS),
        _note(table),
        more=more,
    )


def steps(run: Run, method: str) -> pd.DataFrame:
    """One row per seed and iteration of an arm; `heads`: the units it cut."""
    if not run.has("iterations"):
        return pd.DataFrame()
    rows = lookup.frame(run, "iterations")
    rows = rows[rows["method"] == method].sort_values(["seed", "iteration"], ignore_index=True)
    return rows.assign(heads=rows["newly"].map(json.loads))


def _figure(
    run: Run, choice: Choice, table: pd.DataFrame, measure: Measure, full: dict[str, Any] | None
) -> go.Figure:
    style, soft = track_of(run).style(choice.method, choice.dark), choice.theme.soft
    figure = blank(choice, 360, "share of heads cut", measure.title)
    if full is not None:
        figure.add_hline(
            y=full["value"], line={"color": choice.theme.ink, "width": 1, "dash": "dot"}
        )
        end = {"x": 1, "xref": "paper", "xanchor": "right", "y": full["value"], "yanchor": "bottom"}
        remark(figure, choice, "full model", **end)
    how: dict[str, Any] = {"mode": "lines+markers", "connectgaps": True}
    dashes = ("dot", "dash", "dashdot", "longdash")
    for place, (seed, part) in enumerate(table.groupby("seed")):
        line = {"color": soft, "width": 1.2, "dash": dashes[place % len(dashes)]}
        texts = [_hover(run, row, measure) for row in part.to_dict("records")]
        add_points(
            figure,
            part["sparsity"],
            part["metric"],
            texts,
            {"size": 5, "color": soft},
            line=line,
            opacity=0.75,
            name=f"seed {seed}",
            **how,
        )
    mean = table.groupby("iteration")[["sparsity", "metric"]].mean().reset_index()
    texts = [
        f"<b>iteration {row.iteration}</b><br>mean {measure.number(row.metric)}"
        for row in mean.itertuples()
    ]
    add_points(
        figure,
        mean["sparsity"],
        mean["metric"],
        texts,
        dot(style, 9),
        name="mean over seeds",
        line={"color": style.colour, "width": 3},
        **how,
    )
    figure.update_xaxes(tickformat=".0%", nticks=6, tickangle=0, rangemode="tozero")
    figure.update_yaxes(nticks=6)
    return figure


def _hover(run: Run, row: dict[str, Any], measure: Measure) -> str:
    text = (
        f"<b>seed {row['seed']}, iteration {row['iteration']}</b>:"
        f" {phrasing.count(int(row['n_cut']), 'head')} cut"
    )
    text += f"<br>{measure.name} {measure.number(row['metric'])}"
    if row["heads"]:
        text += "<br>newly: " + "<br>".join(heads_said(run, row["heads"], 6).split("; "))
    return text


def _answer(
    choice: Choice, table: pd.DataFrame, measure: Measure, full: dict[str, Any] | None
) -> tuple[str, str]:
    """Where the arm ends; then which iteration costs most."""
    name, last = words.method_name(choice.method), int(table["iteration"].max())
    mean = table.groupby("iteration")[["n_cut", "metric"]].mean()
    how = f"takes {phrasing.count(last, 'iteration')} to cut"
    if arm_of(choice.method)[0] in SCORED_ONCE:
        how = f"scores once and cuts {phrasing.count(last, 'time')}, in the end"
    before = float(full["value"]) if full is not None else math.nan
    drops = mean["metric"].diff()
    drops.iloc[0] = mean["metric"].iloc[0] - before
    text = (
        f"{name} {how} {mean['n_cut'].iloc[-1]:.3g} heads; the {measure.name} ends at "
        f"{measure.number(mean['metric'].iloc[-1])}{_against(measure, full)}"
    )
    if last > 1 and drops.notna().any() and drops.min() < 0:
        return (
            f"{text}.",
            f"Iteration {int(drops.idxmin())} costs most ({measure.signed(float(drops.min()))}).",
        )
    return f"{text}.", ""


def _against(measure: Measure, full: dict[str, Any] | None) -> str:
    return "" if full is None else f", the full model's is {measure.number(full['value'])}"


def _note(table: pd.DataFrame) -> str:
    """Seeds, training, texts, how exact the attributions are."""
    n = table["seed"].nunique()
    parts = [f"{phrasing.count(n, 'seed')}, no interval: lines are single models."]
    trained = table["retrained"].astype(bool)
    if trained.all():
        parts.append("Fine-tuned again after every iteration.")
    elif table["metric"].isna().any():
        parts.append("Fine-tuned, and measured, only where a level was asked for.")
    else:
        parts.append(
            f"{'Only some iterations are' if trained.any() else 'No iteration is'} followed by"
            " fine-tuning."
        )
    if (table["n_texts"] > 0).any():
        parts.append(f"Scored on {phrasing.count(int(table['n_texts'].max()), 'training text')}.")
    if table["delta"].notna().any():
        delta = phrasing.number(float(table["delta"].abs().max()))
        parts.append(
            f"Attributions miss the change of the model's output by at most {delta} on average."
        )
    return " ".join(parts)


def _named(run: Run, table: pd.DataFrame) -> list[str]:
    return [heads_said(run, units, 99) for units in table["heads"]]
