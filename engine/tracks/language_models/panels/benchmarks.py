"""What published bias benchmarks say of the cut: one panel per benchmark, and the items whose
answer changed."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeGuard

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.types import Values
from engine.data.benchmarks.base import readers
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.by_group import ByGroup, dumbbell
from engine.report.charts.flips import flipped_said
from engine.report.charts.kinds import row_range
from engine.report.charts.panel import Choice, Panel, nothing
from engine.report.schema import group_or, readable
from engine.report.tracks import Benchmarks, Changed, Flips, Measure
from engine.stats.clustered import MISSED
from engine.store.runs import Run, where
from engine.tracks.language_models.benchmarks import (
    PREFIX,
    Metric,
    Scored,
    ScoredBenchmark,
    scored_benchmarks,
)
from engine.tracks.language_models.summary import measured_on, stored, texts_of

COLUMNS = (
    "metric who variant value low high null_low null_high delta delta_low delta_high delta_p"
    " delta_q detectable n"
)
ALL = "all"
"""What the row of all items is called."""
INTERVALS = (
    "Intervals are 95 %, from redrawing whole groups of related items. Chance for a level: the "
    "two roles exchanged at random. Chance for a change (p): dense and cut model exchanged. A "
    "change is clear where its interval leaves out zero and p is at most .05. q, in the table: "
    "p corrected for all variants by Benjamini–Hochberg; detectable likewise."
)


def is_benchmark(row: Values | None) -> TypeGuard[Values]:
    """Whether a row of the results is of a published test."""
    return row is not None and str(row.get("metric", "")).startswith(PREFIX)


def measure_of(name: str) -> Measure:
    """The headline of a benchmark as a measure of the results."""
    one = scored_benchmarks()[name]
    return Measure(
        f"{PREFIX}{name}",
        per_axis=False,
        few="items",
        said=f"{one.headline.title} ({one.title})",
        null_label="null band: what no preference would give",
        null_means="A cut has little to lower here.",
        of_what=one.items,
    )


def benchmark_panel(run: Run, choice: Choice, name: str) -> Panel:
    """Dense against cut on one benchmark: all items, then every group."""
    one, variant = scored_benchmarks()[name], lookup.variant_of(run, choice)
    key, rows = f"benchmark_{name}", _rows(run, name, variant["variant"])
    question = f"{one.title}: {one.question[:1].lower()}{one.question[1:]}"
    if rows.empty:
        return nothing(key, question, f"This audit was not measured on {one.title}.")
    pairs = _pairs(rows, one.main, variant["variant"])
    answer, mind, more = _said(run, choice, variant, one, rows)
    figure = _figure(run, choice, one, pairs)
    label = {variant["variant"]: lookup.variant_label(run, variant)}
    table = _table(one, rows.assign(variant=rows["variant"].replace(label)))
    return Panel(key, question, answer, figure, table, _caveat(run, one), mind=mind, more=more)


def _rows(run: Run, name: str, variant: str) -> pd.DataFrame:
    """Numbers of the dense model and of the variant, where it was measured."""
    if name not in measured_on(run):
        return pd.DataFrame()
    table = lookup.frame(run, "benchmarks")
    return table[(table["benchmark"] == name) & table["variant"].isin(["dense", variant])]


def _pairs(rows: pd.DataFrame, metric: Metric, variant: str) -> pd.DataFrame:
    """One row per group and one for all: dense and cut value of a metric with intervals; as
    `dumbbell` reads them."""
    mine = rows[rows["metric"] == metric.name]
    dense = mine[mine["variant"] == "dense"][
        ["group", "value", "low", "high", "n", "null_low", "null_high"]
    ]
    after = mine[mine["variant"] == variant][
        ["group", "value", "low", "high", "delta", "delta_low", "delta_high", "delta_p"]
    ]
    table = dense.merge(after, on="group", how="left", suffixes=("_dense", ""))
    table = table.assign(
        verdict="", order=table["group"].eq("").astype(int), group=table["group"].map(group_or(ALL))
    )
    ordered = table.sort_values(["order", "n"], ascending=[False, False], kind="stable")
    return ordered.drop(columns="order").reset_index(drop=True)


def _figure(run: Run, choice: Choice, one: ScoredBenchmark, pairs: pd.DataFrame) -> go.Figure:
    """The dumbbells of all items and of the groups; grey: what no preference gives; a line where it
    would be."""
    about = ByGroup(Measure(f"{PREFIX}{one.name}"), one.main.title, items=one.items)
    figure = dumbbell(run, choice, about, pairs)
    if np.isfinite(one.main.ideal):
        figure.add_vline(
            x=one.main.ideal, line={"color": choice.theme.soft, "width": 1, "dash": "dot"}
        )
    for place, row in enumerate(pairs.iloc[::-1].to_dict("records")):
        if np.isfinite(row["null_low"]):
            row_range(figure, choice, place, row["null_low"], row["null_high"], 0.4)
    return figure


def _said(
    run: Run, choice: Choice, variant: Values, one: ScoredBenchmark, rows: pd.DataFrame
) -> tuple[str, str, str]:
    """The answer, what must be kept in mind with it, and what the groups and the other numbers
    say."""
    whole = where(rows, group="", metric=one.main.name).set_index("variant")
    dense, name = whole.loc["dense"].to_dict(), variant["variant"]
    label = lookup.variant_label(run, variant)
    uncut = phrasing.with_interval(dense["value"], dense["low"], dense["high"], few=one.items)
    start = f"“{phrasing.sentence(one.main.title)}” is {uncut} uncut"
    side = _alike(one, dense) or _side(dense, where(rows, variant="dense", metric=one.main.name))
    if name == "dense":
        return f"{start}, {phrasing.count(int(dense['n']), one.item, one.items)}.", side, ""
    if name not in whole.index:
        return f"{start}. {phrasing.sentence(label)} was not measured on it.", side, ""
    after = whole.loc[name].to_dict()
    said = phrasing.change(after, few=one.items)
    answer = f"{start} and {phrasing.number(after['value'])} with {label}: {said}."
    flipped = flipped_said(run, replace(choice, reading=f"{PREFIX}{one.name}"))
    more = (flipped, _groups(one, rows, name), _others(one, rows, name))
    return (
        answer,
        " ".join(filter(None, (side, _could([after], one.main)))),
        " ".join(filter(None, more)),
    )


def _alike(one: ScoredBenchmark, dense: Values) -> str:
    """Said where the model does not know the words that differ; "" where it knows nearly all."""
    if dense["alike"] <= dense["n"] / 100:
        return ""
    of = phrasing.count(int(dense["n"]), one.item, one.items)
    return (
        f"{int(dense['alike']):,} of {of} read the same to this model, because it does not know "
        "the words that differ. They count as even and say nothing about it."
    )


def _side(dense: Values, rows: pd.DataFrame) -> str:
    """Where the uncut value lies beside what no preference gives; rows: of all and of each
    group."""
    side = phrasing.null_side(dense)
    if not side:
        return ""
    band = phrasing.span(dense["null_low"], dense["null_high"])
    if side != "inside":
        return f"Without a preference, chance gives {band}."
    groups = rows[rows["group"] != ""]
    apart = groups.loc[groups["null_p"] * len(groups) <= MISSED, "group"].map(words.quoted)
    but = f", but one for {phrasing.listing(apart)}" if len(apart) else ""
    return f"Over all, the uncut model shows no clear preference ({band}){but}."


def _could(rows: list[Values], metric: Metric) -> str:
    """What could have been found in the rows that a sentence may name."""
    found = phrasing.could(rows, len(rows), metric.most - metric.least)
    return f"{phrasing.sentence(found)}{' in each' * (len(rows) > 1)}." if found else ""


def _groups(one: ScoredBenchmark, rows: pd.DataFrame, variant: str) -> str:
    """Which groups clearly moved, where any may be named."""
    mine = rows[
        (rows["variant"] == variant) & (rows["metric"] == one.main.name) & (rows["group"] != "")
    ]
    tested = mine[mine["delta_low"].notna()].to_dict("records")
    if not tested:
        return ""
    moved = [row for way in ("fell", "rose") for row in phrasing.clear(tested, way)]
    over = f"of {phrasing.count(len(tested), 'group')} ({one.group})"
    if not moved:
        return f"None {over} clearly moved. {_could(tested, one.main)}"
    named = (f"{words.quoted(row['group'])} ({phrasing.signed(row['delta'])})" for row in moved)
    return f"Clearly moved, {over}: {phrasing.listing(named)}."


def _others(one: ScoredBenchmark, rows: pd.DataFrame, variant: str) -> str:
    """The benchmark's other numbers, before and after."""
    whole = rows[rows["group"] == ""].set_index(["metric", "variant"])
    told = [
        f"{metric.title} {phrasing.number(whole.loc[metric.name, 'dense']['value'])} → "
        f"{phrasing.number(row['value'])} ({phrasing.change(row, few=one.items)})"
        for metric in one.metrics[2:]
        for row in [whole.loc[metric.name, variant].to_dict()]
    ]
    return phrasing.sentences(told)


def _caveat(run: Run, one: ScoredBenchmark) -> str:
    sources = lookup.frame(run, "benchmark_sources")
    source = sources[sources["benchmark"] == one.name].iloc[0]
    size = (
        f"{phrasing.count(int(source['items']), one.item, one.items)} in"
        f" {int(source['clusters']):,} clusters"
    )
    parts = (
        phrasing.sentence(f"{one.source}; {source['source']}, {size}."),
        one.rule,
        one.limits,
        INTERVALS,
        source["notes"],
    )
    return " ".join(filter(None, parts))


def _table(one: ScoredBenchmark, rows: pd.DataFrame) -> pd.DataFrame:
    """Every number of both models, in words."""
    titles = {metric.name: metric.title for metric in one.metrics}
    named = rows.assign(metric=rows["metric"].map(titles), who=rows["group"].map(group_or(ALL)))
    return readable(
        named,
        COLUMNS,
        who=one.group,
        null="chance",
        delta_p="p",
        delta_q="q",
        detectable="detectable change",
        n=one.items,
        metric=str,
    ).reset_index(drop=True)


def changed(run: Run, choice: Choice, name: str) -> Changed:
    """The items whose answer another one is after the cut: those that became harmful first, then
    those that moved most."""
    one, variant = scored_benchmarks()[name], lookup.variant_of(run, choice)
    label = lookup.variant_label(run, variant)
    if variant["variant"] == "dense":
        return Changed(
            pd.DataFrame(),
            "Nothing is cut here, so no answer changes. Choose another method or level.",
        )
    found = _answers(run, one, variant["variant"])
    if found is None:
        return Changed(
            pd.DataFrame(), f"{phrasing.sentence(label)} was not measured on {one.title}."
        )
    found = found.assign(worse=found["after_bad"] & ~found["before_bad"])
    moved = found[found["before"] != found["after"]].sort_values(
        ["worse", "moved"], ascending=False, kind="stable"
    )
    said = (
        f"{len(moved):,} of {phrasing.count(len(found), one.item, one.items)} are answered"
        f" otherwise with {label}; {moved['worse'].sum():,} {one.flips[0]} and come first."
        " Of both, those that moved most come first; they represent no others."
    )
    texts = texts_of(run, one)
    texts = texts[texts["item_id"].isin(moved["item_id"])].groupby("item_id")
    told = {item: part.set_index("role")["text"].to_dict() for item, part in texts}
    rows = [_example(one, row, told[row["item_id"]]) for row in moved.to_dict("records")]
    return Changed(pd.DataFrame(rows), said)


def flips(run: Run, choice: Choice, name: str) -> Flips | None:
    """The items of a benchmark whose answer became the one to be wary of, or no longer is."""
    one, variant = scored_benchmarks()[name], lookup.variant_of(run, choice)["variant"]
    found = _answers(run, one, variant)
    if found is None:
        return None
    names = {"group": "group", "item_id": "unit", "cluster": "word", "before_bad": "before"}
    names |= {"after_bad": "after", **({"before_sure": "sure"} if one.sure else {})}
    table = found[list(names)].rename(columns=names)
    return Flips(table, one.items, *one.flips, "clusters", "", one.rule)


def _answers(run: Run, one: ScoredBenchmark, variant: str) -> pd.DataFrame | None:
    """One row per item: the answer before and after, whether it is `harmful`, how sure it is, and
    by how much it moved (nats per token). None where the variant was not measured."""
    before, after = stored(run, one, "dense"), stored(run, one, variant)
    if before is None or after is None:
        return None
    found = before.items[["item_id", "group", "cluster", "prefix"]].copy()
    for side, each in (("before", before), ("after", after)):
        found[side], found[f"{side}_bad"] = one.answers(each), one.harmful(each)
        found[f"{side}_sure"] = [
            _margin(each, at, role, list(one.roles)) for at, role in enumerate(found[side])
        ]
    found["moved"] = found["before_sure"] + found["after_sure"]
    return found


def _margin(scored: Scored, at: int, role: str, roles: list[str]) -> float:
    """By how many nats per token the answer is ahead of the next, or behind it where the rule is
    another."""
    others = [scored.per_token(other)[at] for other in roles if other != role]
    return float(abs(scored.per_token(role)[at] - max(others)))


def _example(one: ScoredBenchmark, row: Values, texts: Values) -> Values:
    """texts: of the item, by role."""
    told = {side: one.roles[row[side]] for side in ("before", "after")}
    by = {
        side: f", by {phrasing.number(row[f'{side}_sure'])} {one.sure}" if one.sure else ""
        for side in told
    }
    notes = {f"{side}_note": f"{told[side]}{by[side]}" for side in told}
    shown = {side: texts[row[side]] for side in told}
    way = one.flips[not row["worse"]] if row["before_bad"] != row["after_bad"] else ""
    label = ", ".join(filter(None, (words.group_name(row["group"]), way)))
    return {"label": label, "prompt": row["prefix"], **shown, **notes}


def files(run: Run) -> dict[str, str]:
    """Which file of each benchmark the run was measured on."""
    if not run.has("benchmark_sources"):
        return {}
    rows = lookup.frame(run, "benchmark_sources").to_dict("records")
    return {
        scored_benchmarks()[row["benchmark"]].title: f"{row['source']} {row['digest'][:12]}"
        for row in rows
    }


BENCHMARKS = Benchmarks(
    names=measured_on,
    known=lambda: {name: one.title for name, one in scored_benchmarks().items()},
    wants=lambda name: readers()[name].about,
    panel=benchmark_panel,
    changed=changed,
    intervals=lambda row: INTERVALS if is_benchmark(row) else "",
    files=files,
)
