"""What more fairness costs in accuracy: the trade-off over λ at one sparsity, and the area it
covers (Fig. 5)."""

from __future__ import annotations

from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.kinds import dots, lines
from engine.report.charts.marks import front_line, heading, remark
from engine.report.charts.panel import Choice, Panel, nothing, wrapped
from engine.report.schema import hovers, readable
from engine.report.tracks import track_of
from engine.store.runs import Run
from engine.tracks.fair_training import words as own
from engine.tracks.fair_training.panels.lookup import flops_said, not_the_fair_axis

QUESTION = "How much accuracy does more fairness cost, and who offers the better choice?"
ABSENT = (
    "This audit has no sweep over λ. Ask for one under “Trade-off over λ” on the page “New audit”,"
    " or with --tradeoff on the command line."
)
GAPS = {"gap": "accuracy gap", "degradation": "degradation gap"}
HEIGHT = 400
COLUMNS = (
    "method strength sparsity accuracy accuracy_low accuracy_high gap gap_low gap_high degradation"
    " degradation_low degradation_high on_front n_trials volume volume_low volume_high"
)


def has_tradeoff(run: Run, choice: Choice) -> bool:
    return not points(run, choice).empty


def tradeoff(run: Run, choice: Choice) -> Panel:
    """A line of λ per method in accuracy and gap, and the hypervolume of each."""
    table = points(run, choice)
    if table.empty:
        return nothing("fair_tradeoff", QUESTION, ABSENT)
    gap, volumes = _gap(run, choice), _volumes(run, choice)
    parts = [
        _curve(run, choice, table, gap),
        *([_bars(run, choice, volumes)] if len(volumes) else []),
    ]
    share = float(table["sparsity"].iat[0])
    at = phrasing.percent(share)
    note = (
        f"All at {at} cut, {phrasing.count(int(table['n_trials'].max()), 'seed')} per point, test "
        f"images. {own.INTERVALS_SEEDS} Dotted line: the front, points that no other beats at "
        f"both by their values.{_reference_said(volumes)} Points of one line differ in λ only, so "
        "read the line, not the single point. Pareto also has the methods without a "
        f"sweep.{flops_said(run, list(table['method'].unique()), share)}"
    )
    (answer, more), shown = (
        _answer(run, choice, table, volumes, gap),
        readable(_with_volumes(table, volumes), COLUMNS, n_trials="seeds"),
    )
    mind = not_the_fair_axis(run, choice).strip()
    return Panel(
        "fair_tradeoff",
        QUESTION,
        answer,
        None,
        shown,
        note,
        tuple(parts),
        True,
        mind=mind,
        more=more,
    )


def _with_volumes(table: pd.DataFrame, volumes: pd.DataFrame) -> pd.DataFrame:
    """Every point with the hypervolume of its method, where there is one."""
    if volumes.empty:
        return table
    mine = volumes.set_index("method")
    ends = {"volume": "value", "volume_low": "low", "volume_high": "high"}
    return table.assign(
        **{name: table["method"].map(mine[column]) for name, column in ends.items()}
    )


def points(run: Run, choice: Choice) -> pd.DataFrame:
    """Rows of the sweep on the measured axis, by method and λ."""
    if not run.has("tradeoff"):
        return pd.DataFrame()
    table, gap = lookup.frame(run, "tradeoff"), _gap(run, choice)
    mine = table[
        (table["axis"] == choice.measured) & table["accuracy"].notna() & table[gap].notna()
    ]
    order = {name: place for place, name in enumerate(track_of(run).order(mine["method"].unique()))}
    return mine.assign(_place=mine["method"].map(order)).sort_values(
        ["_place", "strength"], ignore_index=True
    )


def _gap(run: Run, choice: Choice) -> str:
    """Column of the gap the choice reads by."""
    return "degradation" if lookup.reading(run, choice).harm.metric == "degradation_gap" else "gap"


def _volumes(run: Run, choice: Choice) -> pd.DataFrame:
    if not run.has("hypervolume") or _gap(run, choice) != "gap":
        return pd.DataFrame()
    table = lookup.frame(run, "hypervolume")
    mine = table[(table["axis"] == choice.measured) & table["value"].notna()]
    return mine.sort_values("value", ascending=False, ignore_index=True)


def _curve(run: Run, choice: Choice, table: pd.DataFrame, gap: str) -> go.Figure:
    """A line per method, λ from small to large; λ is written beside its ends: labels in between
    would hide each other."""
    seen = f"method strength accuracy {gap}" + " on_front" * (gap == "gap")
    figure = lines(
        choice,
        table.assign(hover=hovers(table, seen)),
        "accuracy",
        gap,
        {name: track_of(run).style(name, choice.dark) for name in dict.fromkeys(table["method"])},
        ("accuracy (higher is better)", f"{GAPS[gap]} (lower is better)"),
        height=HEIGHT,
        title="Trade-off over λ",
        bars=f"accuracy {gap}",
        ticks="",
    )
    if gap == "gap" and table["on_front"].any():
        best = table[table["on_front"].astype(bool)].sort_values(["accuracy", gap])
        front_line(figure, choice, best["accuracy"], best[gap])
    for _, rows in table.groupby("method"):
        for row in rows.iloc[[0, -1]].to_dict("records"):
            where = {"x": row["accuracy"], "y": row[gap], "xshift": 14, "yshift": 10}
            remark(figure, choice, f"λ {row['strength']:g}", **where)
    figure.update_xaxes(showgrid=True)
    figure.update_layout(margin={"r": 24})
    return figure


def _bars(run: Run, choice: Choice, volumes: pd.DataFrame) -> go.Figure:
    """Hypervolume with its interval, the largest on top."""
    names = list(volumes["method"])
    figure = dots(
        choice,
        volumes.assign(hover=hovers(volumes, "method value", value="hypervolume")),
        "value",
        {name: wrapped(words.method_name(name)) for name in names},
        {name: track_of(run).style(name, choice.dark) for name in names},
        "hypervolume (larger is better)",
        apart=0,
    )
    heading(figure, "Area covered")
    figure.update_layout(height=HEIGHT, margin={"t": 54})  # as beside it, below a legend
    return figure


def _volume(row: dict[str, Any]) -> str:
    return phrasing.with_interval(row["value"], row["low"], row["high"], few="seeds")


def _reference_said(volumes: pd.DataFrame) -> str:
    if volumes.empty:
        return ""
    accuracy, gap = (
        phrasing.number(volumes[f"reference_{name}"].iat[0]) for name in ("accuracy", "gap")
    )
    return (
        " Hypervolume: the area of choices that are worse than some point at both, up to "
        f"accuracy {accuracy} and gap {gap}; computed seed by seed."
    )


def _answer(
    run: Run, choice: Choice, table: pd.DataFrame, volumes: pd.DataFrame, gap: str
) -> tuple[str, str]:
    """What λ does to the chosen or first method; then which method's area is larger as far as
    intervals allow."""
    at = phrasing.percent(float(table["sparsity"].iat[0]))
    known = list(dict.fromkeys(table["method"]))
    method = choice.method if choice.method in known else known[0]
    first, *parts = _along(table[table["method"] == method], method, gap)
    if not volumes.empty:
        pairs = [row for row in volumes.to_dict("records") if row.get("base")]
        parts += map(_area_against, pairs)
        best, others = volumes.iloc[0], volumes.iloc[1:]
        told = {row["method"] for row in pairs if row["base"] == best["method"]}
        told |= {row["base"] for row in pairs if row["method"] == best["method"]}
        others = others[~others["method"].isin(told)]
        clear = [
            words.method_name(name) for name in others.loc[others["high"] < best["low"], "method"]
        ]
        meets = [
            words.method_name(name)
            for name in others.loc[~(others["high"] < best["low"]), "method"]
        ]
        name = words.method_name(best["method"])
        text = (
            f"Of the {len(volumes)} methods swept, {name} covers the largest area,"
            f" {_volume(best.to_dict())}"
        )
        text += f"; its interval lies above that of {phrasing.listing(clear)}" if clear else ""
        text += (
            f"; it overlaps that of {phrasing.listing(meets)}, so either may be larger"
            if meets
            else ""
        )
        parts.append(f"{text}.")
    return f"At {at} cut: {first}", " ".join(parts)


def _area_against(row: dict[str, Any]) -> str:
    """The area of one method minus that of the method it is compared with, seed by seed."""
    name, base = words.method_name(row["method"]), words.method_name(row["base"])
    ends = phrasing.with_interval(
        row["difference"], row["difference_low"], row["difference_high"], few="seeds"
    )
    kind = {"rose": "larger than", "fell": "smaller than"}.get(
        phrasing.direction(
            {"delta_low": row["difference_low"], "delta_high": row["difference_high"]}
        ),
        "not clearly different from",
    )
    return f"The area of {name} is {kind} that of {base}: {ends}, paired by seed and image."


def _along(rows: pd.DataFrame, method: str, gap: str) -> list[str]:
    """What changes from the smallest to the largest λ of one method, in a sentence or two."""
    first, last = (rows.iloc[place].to_dict() for place in (0, -1))
    name = words.method_name(method)
    if len(rows) < 2:
        return [f"{name} was trained with one λ only."]
    moved = []
    for column, what in (("accuracy", "accuracy"), (gap, GAPS[gap])):
        apart = (
            first[f"{column}_high"] < last[f"{column}_low"]
            or last[f"{column}_high"] < first[f"{column}_low"]
        )
        doubt = "" if apart else " (the intervals overlap)"
        moved.append(
            f"{what} goes from {phrasing.number(first[column])} to"
            f" {phrasing.number(last[column])}{doubt}"
        )
    text = (
        f"for {name}, {' and '.join(moved)} as λ grows from {first['strength']:g} to"
        f" {last['strength']:g}."
    )
    against = (
        f"A larger λ does not make the {GAPS[gap]} smaller here." if last[gap] > first[gap] else ""
    )
    return [text, against] if against else [text]
