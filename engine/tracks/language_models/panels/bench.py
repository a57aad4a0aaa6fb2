"""The bench: which heads a reader switched off, and what that is said to do, predicted beside
measured. Below: whether effects of single heads add up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.types import POOLED, Values, is_level
from engine.report import hand_sets, phrasing
from engine.report.charts import lookup
from engine.report.charts.kinds import lines, looks_of
from engine.report.charts.panel import Choice, Panel, nothing
from engine.report.hand_sets import tried_said, tried_variant
from engine.report.schema import hovers
from engine.report.tracks import Bench
from engine.store.runs import Run, where
from engine.surgery.named import units_of, written_heads
from engine.tracks.language_models.panels.cuts import who_pays
from engine.tracks.language_models.panels.heads import (
    critical_units,
    picture,
    pooled_scores,
    unmeasured,
)
from engine.tracks.language_models.predicted import (
    DELTA,
    Guess,
    ahead_of_set,
    heads_beside,
    predicted,
)
from engine.tracks.language_models.tables import TEST, VALIDATION
from engine.tracks.language_models.words import not_scored

NOTHING = (
    "No prediction here: the effects of single heads on this axis are not known. It can be "
    "measured."
)


def bench_map(run: Run, choice: Choice, off: tuple[int, ...], held: tuple[int, ...] = ()) -> Panel:
    """Every head's effect on bias; critical ones black (white when dark), those that are off
    crossed, those that the reader protects marked. off, held: units."""
    question = (
        "Which heads are off, and what does each do to the bias of"
        f" {words.axis_name(choice.measured)}?"
    )
    table = pooled_scores(run, "z_bias", choice.measured)
    if table.empty:
        return nothing("bench_map", question, not_scored())
    critical = table["unit"].isin(critical_units(run, choice))
    table = table.assign(
        critical=critical, cut=table["unit"].isin(off), held=table["unit"].isin(held)
    )
    shown = table[["layer", "head", "value", "low", "high", "critical", "cut", "held"]]
    shown = shown.rename(columns={"cut": "off", "held": "protected by you"})
    answer = "None is off."
    if off:
        share = phrasing.percent(len(off) / len(table))
        answer = f"{phrasing.count(len(off), 'head')} of {len(table)} off ({share})."
    answer += " Click a head to switch it."
    if both := int((table["critical"] & table["cut"]).sum()):
        answer += f" {both} of these {'is' if both == 1 else 'are'} needed to predict text."
    if against := int((table["held"] & table["cut"]).sum()):
        answer += (
            f" {phrasing.count(against, 'head')} that you protect {'is' if against == 1 else 'are'}"
            " off by hand."
        )
    return Panel("bench_map", question, answer, picture(run, choice, table), shown, words.COUNTING)


def on_validation(run: Run, choice: Choice, off: tuple[int, ...]) -> Panel | None:
    """A set that was measured on validation prompts: what was predicted beside what came out. None
    where it was not."""
    variant = tried_variant(run, off, cut_of)
    rows = (
        [
            lookup.result(run, variant, metric, axis, VALIDATION)
            for metric, axis in ((f"bias:{choice.reading}", choice.measured), ("perplexity", ""))
        ]
        if variant
        else []
    )
    bias, text = rows or (None, None)
    if bias is None:
        return None
    found = predicted(run, off, choice.measured)
    measured = Guess(*(bias[name] for name in DELTA))
    table = [
        {
            "number": "change of bias",
            **found.change.named("predicted", "predicted low", "predicted high"),
            **measured.named("measured", "measured low", "measured high"),
        }
    ]
    dense = lookup.result(run, "dense", "perplexity", "", VALIDATION)
    if text is not None and dense is not None:
        table.append({"number": "change of perplexity", "measured": text["value"] - dense["value"]})
    inside = found.change.low <= bias["delta"] <= found.change.high
    answer = (
        f"On validation prompts the bias changes by {phrasing.change(bias)}; "
        f"{phrasing.signed(found.change.value)} was predicted. The measured value lies "
        f"{'inside' if inside else 'outside'} the predicted interval."
    )
    note = (
        f"n = {int(bias['n'])} validation prompts. The effects on the map come from these prompts "
        "too, so a set chosen by them looks better here than it is. The prediction is about test "
        "prompts, which are others."
    )
    return Panel(
        "on_validation", "Does it do what was predicted?", answer, None, pd.DataFrame(table), note
    )


def said(run: Run, choice: Choice) -> str:
    """How many sets were tried, and what chance makes of the best."""
    where = "validation prompts", "test prompts"
    return tried_said(run, f"bias:{choice.reading}", choice.measured, VALIDATION, TEST, where)


def as_method(run: Run, choice: Choice, held: Sequence[int]) -> tuple[int, ...]:
    """The heads that the chosen method cuts at the chosen level; others in place of those to
    spare."""
    if not held and is_level(choice.level, lookup.levels(run, choice.method, choice.axis)):
        return tuple(lookup.cut_units(lookup.variant_of(run, choice)))
    return heads_beside(run, choice.method, choice.axis, choice.level, held)


def cut_of(variant: Values) -> tuple[int, ...]:
    return tuple(lookup.cut_units(dict(variant)))


BENCH = Bench(
    picture=bench_map,
    ahead=ahead_of_set,
    nothing=lambda run, choice: NOTHING,
    tried=on_validation,
    said=said,
    who=who_pays,
    units=units_of,
    written=written_heads,
    cut_of=lambda run, variant: cut_of(variant),
    as_method=as_method,
    name=hand_sets.head_name,
    example="0.5, 3.2",
    first=lambda run: "validation prompts",
    last="test prompts",
    first_split=lambda run: VALIDATION,
)


# Do the effects of single heads add up when several are cut?


def additivity(run: Run, choice: Choice) -> Panel:
    """Sum of single effects against the measured change, along the slider."""
    question = f"Do effects of single heads on {words.axis_name(choice.measured)} add up?"
    table = _sums(run, choice)
    if table.empty or table["predicted change"].isna().all():
        why = "This needs a pruned variant of the method, and ranked heads."
        return nothing("additivity", question, why)
    last = table.iloc[-1]
    inside = int(table["predicted change"].between(table["low"], table["high"]).sum())
    predicted, measured = (
        phrasing.signed(last[f"{kind} change"]) for kind in ("predicted", "measured")
    )
    answer = (
        f"At {phrasing.percent(last['sparsity'])} the single effects add up to {predicted},"
        f" but {measured} was measured ({phrasing.span(last['low'], last['high'])})."
    )
    more = (
        f"The sum lies inside the measured interval at {inside} of {len(table)} sparsities."
        f" {_parts_said(last)}"
    )
    note = (
        "Bars on the sum add up the intervals of single effects as if all erred together, so "
        "they are wide. Single effects come from validation prompts, measured changes from test "
        "prompts. Heads chosen for large effects look larger than they are; that makes the sum "
        "too large. Heads that stand in for each other show only when cut together; that makes it "
        "too small."
    )
    return Panel("additivity", question, answer, _figure(choice, table), table, note, more=more)


def _parts_said(row: pd.Series) -> str:
    """How much of the difference is the estimator's error, and what is left for interaction."""
    left = phrasing.signed(row["interaction"])
    if not row["first order"]:
        return f"All of them were measured, so the difference of {left} is interaction or chance."
    heads = phrasing.count(int(row["first order"]), "head")
    if math.isnan(row["estimator error"]):
        return (
            f"{heads} have only a first-order estimate. Nobody knows how much of the difference is "
            "its error."
        )
    error = phrasing.signed(row["estimator error"])
    return (
        f"{heads} have only a first-order estimate. By the heads that have both values, its "
        f"error explains {error} of the difference; {left} is interaction or chance."
    )


def _sums(run: Run, choice: Choice) -> pd.DataFrame:
    """One row per sparsity of the chosen method: the sum of single effects with its ends, the
    measured change, and the difference. That has two parts: what first order misses of the heads
    that were not measured, and interaction.
    """
    scores = lookup.frame(run, "scores")
    mine = where(scores, score="z_bias", axis=choice.measured, seed=POOLED)
    single, rows = mine.set_index("unit"), []
    slope = _slope(run, choice.measured)
    for sparsity in lookup.levels(run, choice.method, choice.axis):
        variant = lookup.variant_of(run, replace(choice, level=sparsity))
        row = lookup.bias(run, variant["variant"], choice)
        if sparsity > 0 and row is not None and math.isfinite(row["delta"]):
            cut = single.reindex(lookup.cut_units(variant))
            summed = -float(cut["value"].sum(min_count=1))
            # The difference between measured change and sum, in parts; slope: of
            # measured effects on first order.
            difference, first_order = row["delta"] - summed, unmeasured(cut)["value"]
            error = -float((slope - 1) * first_order.sum()) if len(first_order) else 0.0
            rows.append(
                {
                    "sparsity": sparsity,
                    "heads cut": int(variant["n_cut"]),
                    "predicted change": summed,
                    "measured change": row["delta"],
                    "sum low": -cut["high"].sum(skipna=False),
                    "sum high": -cut["low"].sum(skipna=False),
                    "first order": len(first_order),
                    "estimator error": error,
                    "interaction": difference - (0.0 if math.isnan(error) else error),
                    "low": row["delta_low"],
                    "high": row["delta_high"],
                }
            )
    return pd.DataFrame(rows)


def _slope(run: Run, axis: str) -> float:
    """How much larger measured effects are than first order, by the heads that have both; NaN where
    no run says."""
    said = ((run.meta.get("scoring") or {}).get("z_bias") or {}).get(axis) or {}
    slope = (said.get("first_order") or {}).get("slope")
    return math.nan if slope is None else float(slope)


def _figure(choice: Choice, table: pd.DataFrame) -> go.Figure:
    columns = ("sparsity", "value", "low", "high")
    named = {
        "measured, with 95 % interval": ["sparsity", "measured change", "low", "high"],
        "sum of single effects": ["sparsity", "predicted change", "sum low", "sum high"],
    }
    drawn = pd.concat(
        table[theirs].set_axis(columns, axis=1).assign(series=name)
        for name, theirs in named.items()
    )
    return lines(
        choice,
        drawn.assign(hover=hovers(drawn, "series sparsity value", series=str, value="change")),
        "sparsity",
        "value",
        looks_of(choice, list(named)),
        ("share of heads cut", "change of bias"),
        by="series",
        named=str,
        height=340,
        bars="- value",
        level=(0, ""),
    )
