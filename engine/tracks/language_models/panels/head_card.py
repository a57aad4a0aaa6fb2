"""One head on a card: what it does on every axis, its rank and how sure that is, what protects it,
what cuts it."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.types import Values, exact_count, rng
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.headline import null_warning
from engine.report.charts.heat_map import prove_head
from engine.report.charts.kinds import dots, entry, hover
from engine.report.charts.panel import Choice, Panel, wrapped
from engine.report.palette import Style
from engine.report.tracks import track_of
from engine.stats.clustered import TAILS
from engine.store.runs import Run
from engine.tracks.language_models import words as own
from engine.tracks.language_models.panels.heads import (
    FIRST_ORDER,
    NOT_SUPPORTED,
    critical_units,
    gamma_of,
    pooled_scores,
)
from engine.tracks.language_models.panels.reliability import by_seed
from engine.tracks.language_models.pilot import WIDTH, picked
from engine.tracks.language_models.selection import selection_methods

RANK, PROTECTED = "Rank", "Protected?"
FIRST = (RANK, PROTECTED)
"""Facts that are read beside the maps; the rest follows when asked."""
DRAWS = 1000
"""Scores redrawn within their errors, for the interval of a rank."""
FEW_SEEDS = 4
"""Up to so many seeds are told one by one."""


def head_card(run: Run, choice: Choice, unit: int) -> Panel:
    """The head's effects on bias with intervals, one row per axis; the table says the rest in
    words."""
    prove_head(run, unit)
    per_layer = int(run.model["n_heads"])
    question = f"What does {words.head_name(unit // per_layer, unit % per_layer)} do?"
    effects = effects_of(run, unit)
    ranked = effects.dropna(subset="value")
    figure = _dots(ranked, choice) if len(ranked) else None
    table = pd.DataFrame(_facts(run, choice, unit), columns=["about", "found"])
    how = "Bias with the head on minus bias with it off, one head at a time, 95 % intervals. "
    note = f"{how * bool(len(ranked))}{words.COUNTING}"
    return Panel("head_card", question, _answer(run, choice, effects), figure, table, note)


def by_rank(run: Run, choice: Choice) -> tuple[int, ...]:
    """All heads, the one that adds most bias first; by number where none is ranked."""
    table = pooled_scores(run, "z_bias", choice.measured).dropna(subset="value")
    if table.empty:
        return tuple(range(run.n_units))
    return tuple(table.sort_values(["value", "unit"], ascending=[False, True])["unit"].tolist())


def effects_of(run: Run, unit: int) -> pd.DataFrame:
    """The head's effect on the bias of every axis, in the order of the request; NaN where none was
    ranked."""
    found = [pooled_scores(run, "z_bias", axis).assign(axis=axis) for axis in run.request["axes"]]
    rows = pd.concat([table[table["unit"] == unit] for table in found])
    return rows.reindex(columns=["axis", "value", "low", "high", "q", "estimator", "note"])


def _answer(run: Run, choice: Choice, effects: pd.DataFrame) -> str:
    """What it does to the axis that is read."""
    axis, mine = words.axis_name(choice.measured), effects[effects["axis"] == choice.measured]
    if mine.empty:
        return own.not_scored()
    if mine["value"].isna().all():
        return f"Heads were not ranked for {axis}."
    row = mine.iloc[0]
    numbers = f"{phrasing.signed(row['value'])}{_interval(row)}"
    if row["estimator"] == FIRST_ORDER:
        verb = "Would add to" if row["value"] > 0 else "Would hold down"
        said = f"{verb} the bias of {axis}, to first order: {numbers}; not measured."
    elif not _is_sure(row):
        said = f"Its effect on the bias of {axis} may be zero: {numbers}."
    else:
        said = f"{'Adds to' if row['value'] > 0 else 'Holds down'} the bias of {axis}: {numbers}."
    return f"{NOT_SUPPORTED} {said}" if null_warning(run, choice) else said


def _interval(row: Values) -> str:
    return (
        f" ({phrasing.signed(row['low'])} to {phrasing.signed(row['high'])})"
        if math.isfinite(row["low"])
        else ""
    )


def _is_sure(row: Values) -> bool:
    """Told from zero: at a false discovery rate of 5 % over all heads where that is known, else by
    its interval."""
    if math.isfinite(row["q"]):
        return row["q"] <= 0.05
    return row["low"] > 0 or row["high"] < 0


def _dots(table: pd.DataFrame, choice: Choice) -> go.Figure:
    """A dot and its interval per axis; hollow where it is first order only. The axis that is read
    lies on grey."""
    hows = {_estimator(row) for row in table.to_dict("records")}
    one = f", {hows.pop()}" if len(hows) == 1 else ""
    names = [_named(row, choice, not one) for row in table.to_dict("records")]
    hollow = table["estimator"] == FIRST_ORDER
    drawn = table.assign(
        hover=[_hover(row) for row in table.to_dict("records")],
        symbol=np.where(hollow, "circle-open", "circle"),
        all="",
    )
    figure = dots(
        choice,
        drawn,
        "value",
        dict(zip(table["axis"], names, strict=True)),
        {"": Style(choice.theme.ink, "circle")},
        f"effect on bias{one}",
        row="axis",
        by="all",
        at=choice.measured,
    )
    tall = max(28, 24 + 16 * max(name.count("<br>") for name in names))
    figure.update_layout(height=82 + tall * len(table))
    if hollow.any():
        entry(
            figure,
            "first order, not measured",
            mode="markers",
            marker={"symbol": "circle-open", "size": 10, "color": choice.theme.ink},
        )
        figure.update_layout(height=figure.layout.height + 24)
    figure.update_xaxes(fixedrange=True, nticks=5)
    figure.update_yaxes(fixedrange=True, showline=False)
    return figure


def _named(row: Values, choice: Choice, with_estimator: bool) -> str:
    """An axis, and below it how the effect was found."""
    name = wrapped(words.axis_name(row["axis"]), 24)
    if not with_estimator:
        return name
    look, how = f"font-size:11px;color:{choice.theme.soft}", wrapped(_estimator(row), 24)
    return f"{name}<br><span style='{look}'>{how}</span>"


def _estimator(row: Values) -> str:
    return f"by {own.estimator_name(row['estimator'])}" if row["estimator"] else "mean of seeds"


def _hover(row: Values) -> str:
    q = f"q = {phrasing.number(row['q'])}" if math.isfinite(row["q"]) else ""
    numbers = f"{phrasing.signed(row['value'])}{_interval(row)}"
    return hover(
        wrapped(words.axis_name(row["axis"]), 40),
        numbers,
        q,
        _estimator(row),
        wrapped(str(row["note"] or "")).strip(),
    )


def _facts(run: Run, choice: Choice, unit: int) -> Iterator[tuple[str, str]]:
    """What else is known, each under a word or two."""
    table = pooled_scores(run, "z_bias", choice.measured)
    if len(table) and table["value"].notna().all():
        yield (
            RANK,
            (
                f"{by_rank(run, choice).index(unit) + 1} of {len(table)} by effect on bias; 1 adds"
                " most."
            ),
        )
        if again := " ".join(_again(run, choice, unit, table)):
            yield "Would that come out again?", again
    needed = pooled_scores(run, "z_ppl")
    if len(needed):
        yield PROTECTED, _protected(run, choice, unit, needed)
        yield "What the model loses", _loss(run, needed[needed["unit"] == unit].iloc[0])
    yield "Cut by", _cut_by(run, choice, unit)


def _again(run: Run, choice: Choice, unit: int, table: pd.DataFrame) -> Iterator[str]:
    """Its rank in every seed, and in scores redrawn within their errors."""
    seeds = by_seed(run, choice.measured)
    if seeds.shape[1] > 1 and unit in seeds.index:
        ranks = seeds.rank(ascending=False, method="first").loc[unit].astype(int)
        if len(ranks) <= FEW_SEEDS:
            yield (
                "Rank"
                f" {phrasing.listing(f'{rank} in seed {seed}' for seed, rank in ranks.items())}."
            )
        else:
            yield f"Rank {ranks.min()} to {ranks.max()} over {len(ranks)} seeds."
    spread = table["high"] - table["low"]
    errors = table["error"].fillna(spread / WIDTH) if "error" in table else spread / WIDTH
    if errors.notna().all():
        yield from _redrawn(run, choice, unit, table["value"].to_numpy(), errors.to_numpy())


def _redrawn(
    run: Run, choice: Choice, unit: int, values: np.ndarray, errors: np.ndarray
) -> Iterator[str]:
    """How far the rank goes, and how often the chosen method would cut the head; values and errors
    [units]."""
    drawn = (
        values + rng("ranks of heads", len(values)).standard_normal((DRAWS, len(values))) * errors
    )
    low, high = np.quantile((drawn > drawn[:, [unit]]).sum(axis=1) + 1, TAILS, method="nearest")
    reach = f"{low:.0f} to {high:.0f}" if low < high else f"{low:.0f}"
    yield f"Within the heads' errors, taken as independent, its rank would be {reach} (95 %)."
    variant, method = lookup.variant_of(run, choice), selection_methods().get(choice.method)
    if method and "z_bias" in method.needs and variant["n_cut"]:
        critical = frozenset(critical_units(run, choice) if method.uses_gamma else ())
        if unit not in critical:
            share = picked(drawn, (critical, int(variant["n_cut"])))[:, unit].mean()
            amount = f"{variant['n_cut']} heads cut by {words.method_name(choice.method)}"
            yield (
                f"In {phrasing.percent(round(share, 2))} of draws it would be one of the {amount}."
            )


def _protected(run: Run, choice: Choice, unit: int, table: pd.DataFrame) -> str:
    """By γ and its place among the heads that perplexity needs."""
    place = int(table.set_index("unit")["value"].rank(method="first")[unit])
    stands = f"place {place} of {len(table)} by need for perplexity"
    gamma = gamma_of(run, choice)
    if not math.isfinite(gamma):
        return f"{phrasing.sentence(stands)}; this audit names no γ."
    first = exact_count(gamma, len(table))
    if unit in critical_units(run, choice):
        return f"Yes, by FASP: {stands}, and γ = {gamma:g} protects the first {first}."
    return f"No: {stands}, and γ = {gamma:g} protects the first {first} only."


def _loss(run: Run, row: Values) -> str:
    """z_ppl is perplexity on minus off: with the sign turned, what switching it off alone does."""
    change = phrasing.signed(-row["value"], True)
    text = f"Perplexity {change}"
    if math.isfinite(row["low"]):
        text += f" ({phrasing.signed(-row['high'], True)} to {phrasing.signed(-row['low'], True)})"
        text += ", which may be zero" if row["low"] <= 0 <= row["high"] else ""
    how = "measured" if row["estimator"] == "exact" else own.estimator_name(row["estimator"])
    dense = lookup.result(run, "dense", "perplexity")
    level = (
        f" The dense model's is {phrasing.number(dense['value'], True)} on test text."
        if dense
        else ""
    )
    return f"{text} when it alone is off ({how}, validation text).{level}"


def _cut_by(run: Run, choice: Choice, unit: int) -> str:
    """The methods that cut it for this axis, each with its levels."""
    table, level = lookup.of_axis(run, lookup.reported(run), choice.axis), track_of(run).level
    cuts = table[table["n_cut"] > 0]
    mine = cuts[[unit in lookup.cut_units(row) for row in cuts.to_dict("records")]]
    of = f"{phrasing.count(len(cuts), 'reported variant')} for {words.axis_name(choice.axis)}"
    if mine.empty:
        return f"None of {of}."
    said = []
    for method in track_of(run).methods.order(mine["method"].unique()):
        levels = sorted(
            {float(value) for value in mine.loc[mine["method"] == method, level.column]}
        )
        said.append(
            f"{words.method_name(method)} at"
            f" {phrasing.listing(level.say(value) for value in levels)}"
        )
    return f"{len(mine)} of {of}: {phrasing.sentence('; '.join(said))}."
