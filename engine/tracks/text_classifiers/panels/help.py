"""Does the score help? The paired difference between arms that differ in nothing but what picks the
heads."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.ids import at_level
from engine.core.types import POOLED
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.classifier_lookup import trials_said
from engine.report.charts.differences import BY_CHANCE, MAX_Q, as_change, direction, q_said
from engine.report.charts.kinds import dots, lines, looks_of, points
from engine.report.charts.panel import Choice, Panel, nothing, wrapped
from engine.report.contract import Measure
from engine.report.schema import group_or, hovers, readable
from engine.store.runs import Run
from engine.store.tables import where
from engine.tracks.text_classifiers import words as own
from engine.tracks.text_classifiers.panels.importance import importance
from engine.tracks.text_classifiers.panels.survival import (
    TUNED,
    arm_of,
    groups_of_axis,
    head_said,
    measure_of,
    task,
)
from engine.tracks.text_classifiers.words import arm_style

RANDOM = "random"
LONGEST = 6
"""Groups drawn at most."""
COLUMNS = "base score other sparsity group metric value low high p q n n_trials"
ALL = group_or("all texts")


def score_difference(run: Run, choice: Choice) -> Panel:
    """The chosen score minus every other it was compared with, same procedure: all texts and every
    group."""
    procedure, score = _asked(run, choice)
    at = phrasing.percent(lookup.level_of(run, choice))
    table = differences(run, choice, procedure, score)
    name, arm = own.importance_name(score), own.procedure_name(procedure)
    others = [own.importance_name(str(other)) for other in table["other"].unique()]
    question = f"Does {name} choose better heads than {_or(others)}?"
    if table.empty:
        why = f"This audit does not compare {arm} by {name} and by another score at {at}."
        return nothing("score_difference", question, why)
    n = phrasing.count(int(table["n"].max()), "test text")
    note = (
        f"Difference of {_measure(table.iloc[0].to_dict()).name}: {name} minus the other score,"
        f" {arm} at {at}, same texts, {n}, {trials_said(run)} each. {own.INTERVALS_TEXTS} Several"
        " intervals are read at once: only differences with q (false discovery rate) of at most"
        f" {MAX_Q:g} are claimed."
    )
    (answer, rest), figure = _answer(run, choice, table, procedure, score), _figure(choice, table)
    names = {"score": own.importance_name, "other": own.importance_name}
    titles = {"value": "difference", "n_trials": "seeds"}
    shown = readable(table, COLUMNS, base=own.procedure_name, group=ALL, **names, **titles)
    return Panel("score_difference", question, answer, figure, shown, note, more=rest)


def _asked(run: Run, choice: Choice) -> tuple[str, str]:
    """Procedure and score of the choice; where random choice was chosen, the score that it is a
    control for."""
    procedure, score = arm_of(choice.method)
    rows = _differences(run)
    if rows.empty or score not in (RANDOM, ""):
        return procedure, score
    mine = where(rows, base=procedure)
    mine = rows if mine.empty else mine
    known = set(mine["score"])
    first = next(filter(known.__contains__, own.IMPORTANCE), mine["score"].iloc[0])
    return str(mine["base"].iloc[0]), str(first)


def _or(others: list[str]) -> str:
    """ "random choice, magnitude or Michel"."""
    *first, last = others or ["random choice"]
    return " or ".join(filter(None, [", ".join(first), last]))


def _differences(run: Run) -> pd.DataFrame:
    if not run.has("arm_differences"):
        return pd.DataFrame(columns=COLUMNS.split() + ["axis"])
    return lookup.frame(run, "arm_differences")


def differences(run: Run, choice: Choice, procedure: str, score: str) -> pd.DataFrame:
    """Rows of arm_differences at the chosen level: the task's metric on all texts, accuracy of the
    axis' groups."""
    rows = where(_differences(run), base=procedure, score=score)
    rows = rows[at_level(rows["sparsity"], lookup.level_of(run, choice))]
    whole = where(rows, axis="")
    mine = where(whole, metric=task(run).metric)
    mine = where(whole, metric="accuracy") if mine.empty else mine
    groups = groups_of_axis(run, choice.measured)
    each = where(rows, axis=choice.measured, metric="accuracy")
    found = pd.concat([mine, each[each["group"].isin(groups)]], ignore_index=True)
    others = dict.fromkeys([RANDOM, *own.IMPORTANCE, *found["other"]])
    places = {name: order for order, name in enumerate(others)} | {
        group: order for order, group in enumerate(["", *groups])
    }
    # means of equal numbers differ in their last digits
    found = found.round({"value": 9, "low": 9, "high": 9})
    return found.sort_values(
        ["other", "group"], key=lambda names: names.map(places), ignore_index=True
    )


def _measure(row: dict[str, Any]) -> Measure:
    return Measure(row["metric"], few="texts")


def _answer(
    run: Run, choice: Choice, table: pd.DataFrame, procedure: str, score: str
) -> tuple[str, str]:
    """The difference on all texts from the first other score; then the subgroups for which it helps
    or harms, and the rest."""
    parts: list[str] = []
    name, arm = own.importance_name(score), own.procedure_name(procedure)
    for other, rows in table.groupby("other", sort=False):
        for row in where(rows, group="").to_dict("records"):
            said = _said(row, name, own.importance_name(str(other)))
            parts.append(phrasing.sentence(said) if parts else said)
        parts.append(_groups_said(rows[rows["group"] != ""]))
    start = f"{arm} at {phrasing.percent(lookup.level_of(run, choice))}: "
    first, *rest = filter(None, parts)
    return phrasing.sentence(start + first), " ".join(rest)


def _said(row: dict[str, Any], name: str, other: str) -> str:
    change, kind = _measure(row).change(as_change(row)), direction(row)
    verdict = {
        "rose": f"{name} chooses better than {other}",
        "fell": f"{name} chooses worse than {other}",
        "unclear": f"{name} and {other} do not clearly differ",
        BY_CHANCE: f"{name} and {other} do not clearly differ once all comparisons are counted",
    }.get(kind, f"whether {name} helps against {other} was not measured")
    q = f"; {q_said(row)}" if kind == BY_CHANCE and math.isfinite(row["q"]) else ""
    return f"{verdict} ({_measure(row).name} {change}{q})."


def _groups_said(table: pd.DataFrame) -> str:
    kinds: dict[str, list[str]] = {}
    for row in table.to_dict("records"):
        kinds.setdefault(direction(row), []).append(words.quoted(row["group"]))
    parts = [
        f"it {verb} {phrasing.listing(kinds[kind])}"
        for kind, verb in (("rose", "helps"), ("fell", "harms"))
        if kind in kinds
    ]
    text = f"{phrasing.sentence(' and '.join(parts))}." if parts else ""
    text = "No subgroup alone shows a clear difference." if kinds and not parts else text
    if by_chance := kinds.get(BY_CHANCE):
        whose, why = phrasing.listing(by_chance), f"by chance (q above {MAX_Q:g})"
        text += f" For {whose} the interval excludes zero, but so many comparisons can"
        text += f" give that {why}."
    return text


def _figure(choice: Choice, table: pd.DataFrame) -> go.Figure:
    """A row per group, a point per other score."""
    said = hovers(
        table,
        "group other value q n",
        group=ALL,
        other=_against,
        value=f"difference of {_measure(table.iloc[0].to_dict()).name}",
    )
    rows = {
        group: wrapped(ALL(group)) for group in list(dict.fromkeys(table["group"]))[: LONGEST + 1]
    }
    looks = looks_of(choice, list(dict.fromkeys(table["other"])))
    title = "difference; right of zero: chosen better"
    drawn = table.assign(hover=said)
    return dots(choice, drawn, "value", rows, looks, title, row="group", by="other", named=_against)


def _against(other: str) -> str:
    return f"against {own.importance_name(other)}"


CLAIMED_Q = 0.05
"""Largest false discovery rate at which an arm is said to beat chance."""
APART = 0.012
CHANCE_COLUMNS = (
    "method group sparsity metric value percentile p q null_mean null_low null_high n_masks"
    " n_seeds n"
)


def random_masks(run: Run, choice: Choice, group: str = "") -> Panel:
    """Every arm that trains nothing, and the band of random masks, along the share of heads cut."""
    whom = f" for {words.quoted(group)}" if group else ""
    question = f"Does any score choose heads better than chance on the same weights{whom}?"
    table = ranks(run, choice.measured if group else "", group)
    if table.empty:
        return nothing("tickets_chance", question, own.NO_RANDOM_MASKS)
    measure = measure_of(run, group)
    note = (
        f"{own.RANDOM_MASKS} Band: 95 % of {int(table['n_masks'].max())} random masks, mean over"
        f" {phrasing.count(int(table['n_seeds'].max()), 'seed')};"
        f" {phrasing.count(int(table['n'].max()), 'test text')}."
    )
    answer, mind, rest = _chance_answer(run, choice, table, measure)
    figure = _chance_figure(choice, table, measure)
    shown = readable(table, CHANCE_COLUMNS, group=ALL, value="mean of seeds")
    return Panel("tickets_chance", question, answer, figure, shown, note, mind=mind, more=rest)


def ranks(run: Run, axis: str = "", group: str = "") -> pd.DataFrame:
    """Rows of random_ranks about all texts or one group, by share and percentile; empty in runs
    that have none."""
    if not run.has("random_ranks"):
        return pd.DataFrame()
    table = lookup.frame(run, "random_ranks")
    rows = where(table, axis=axis, group=group)
    return rows.sort_values(["sparsity", "percentile"], ascending=[True, False], ignore_index=True)


def _chance_figure(choice: Choice, table: pd.DataFrame, measure: Measure) -> go.Figure:
    said = hovers(table, "method sparsity value percentile null p q", value=measure.name)
    looks = {name: arm_style(name, choice.dark) for name in dict.fromkeys(table["method"])}
    band = table.drop_duplicates("sparsity")
    titles = ("share of heads cut", measure.title)
    how = {"apart": APART, "mode": "markers", "band": band}
    figure = lines(choice, table.assign(hover=said), "sparsity", "value", looks, titles, **how)
    line = {"color": choice.theme.soft, "dash": "dot", "width": 1.4}
    name = "random masks: mean and 95 %"
    more = {"mode": "lines", "line": line, "hoverinfo": "skip", "name": name}
    figure.add_scatter(x=band["sparsity"], y=band["null_mean"], **more)
    return figure


def _place(row: dict[str, Any]) -> str:
    """E.g. "97th percentile"."""
    at = round(100 * row["percentile"])
    ending = "th" if 10 < at % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(at % 10, "th")
    return f"{at}{ending} percentile"


def _chance_answer(
    run: Run, choice: Choice, table: pd.DataFrame, measure: Measure
) -> tuple[str, str, str]:
    """At the chosen level, or the middle one: who beats chance; who only seems to; then each arm's
    percentile and p-value."""
    level = lookup.level_of(run, choice)
    known = sorted(table["sparsity"].unique())
    level = level if at_level(table["sparsity"], level).any() else known[len(known) // 2]
    rows = table[at_level(table["sparsity"], level)].to_dict("records")
    named = {row["method"]: words.method_name(row["method"]) for row in rows}
    better = [named[row["method"]] for row in rows if row["q"] <= CLAIMED_Q]
    above = [
        named[row["method"]]
        for row in rows
        if row["value"] > row["null_high"] and row["q"] > CLAIMED_Q
    ]
    many = f"{rows[0]['n_masks']} random masks"
    verb = "stands" if len(better) == 1 else "stand"
    start = f"{phrasing.listing(better)} {verb} above {many}"
    start = start if better else f"no score clearly differs from {many}"
    but = "Above the 95 % band, but not after correction for all methods and shares compared"
    corrected = f"{but}: {phrasing.listing(above)}." if above else ""
    each = [
        f"{named[row['method']]} {_place(row)} (p = {phrasing.number(row['p'])})" for row in rows
    ]
    mean, low, high = (measure.number(rows[0][f"null_{end}"]) for end in ("mean", "low", "high"))
    band = f"random masks: {measure.name} {mean}, 95 % from {low} to {high}"
    at = f"With {phrasing.percent(level)} of heads cut and nothing trained again"
    return (
        f"{at} {start} (q at most {CLAIMED_Q:g}).",
        corrected,
        f"{phrasing.sentence('; '.join(each))}; {band}.",
    )


METRIC = "loss"
"""What silencing a head costs is drawn in: the loss sees every text, accuracy only those that tip
over."""
TRUTH_COLUMNS = "score metric pearson spearman slope slope_low slope_high n_heads"


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
    parts = (_slopes(choice, mine), _truth_scatter(run, choice, score))
    note = (
        f"{own.TRUTH} Costs in nats of cross-entropy, mean over {trials_said(run)}; the table has"
        " accuracy too."
    )
    answer, rest = _truth_answer(mine, score)
    titles = {"metric": "cost in", "slope": "slope per deviation"}
    shown = readable(table, TRUTH_COLUMNS, score=own.importance_name, **titles)
    return Panel("score_truth", question, answer, None, shown, note, parts, True, more=rest)


def _slopes(choice: Choice, table: pd.DataFrame) -> go.Figure:
    """A row per score: slope with its interval, the correlation beside its name."""
    said = hovers(table, "score slope pearson spearman", score=own.importance_name)
    rows = {
        row.score: wrapped(
            f"{own.importance_name(row.score)} (r\u00a0=\u00a0{phrasing.correlation(row.pearson)})",
            22,
        )
        for row in table.itertuples()
    }
    drawn, looks = table.assign(hover=said, all=""), looks_of(choice, [""])
    title = "slope: nats per standard deviation of the score"
    return dots(choice, drawn, "slope", rows, looks, title, row="score", by="all")


def _truth_scatter(run: Run, choice: Choice, score: str) -> go.Figure:
    """What silencing each head costs against its score, with the cost's interval."""
    truth = lookup.frame(run, "head_truth")
    truth = where(truth, metric=METRIC, seed=POOLED)
    truth = truth.rename(columns={"low": "cost_low", "high": "cost_high"})
    both = importance(run, score, TUNED)[["unit", "value"]].merge(
        truth[["unit", "cost", "cost_low", "cost_high"]]
    )
    both = both.dropna()
    said = hovers(both, "unit value cost", unit=lambda unit: head_said(run, unit), value="score")
    name = own.importance_name(score)
    titles = (name, "cost in nats")
    return points(
        choice, both.assign(hover=said), "value", "cost", titles, title=name, bars="- cost"
    )


def _truth_answer(table: pd.DataFrame, score: str) -> tuple[str, str]:
    """The score of the chosen arm; then the one that agrees best."""
    rows = table.set_index("score")
    best, mine = table.iloc[0], rows.loc[score]
    parts = [f"{own.importance_name(score)} {_truth_said(mine.to_dict())}"]
    if best["score"] != score:
        parts.append(
            f"{own.importance_name(best['score'])} agrees best: it {_truth_said(best.to_dict())}"
        )
    unknown = [
        own.importance_name(row.score) for row in table.itertuples() if not row.slope_low > 0
    ]
    if unknown and len(table) > 1:
        parts.append(
            f"no clear difference from a score without information: {phrasing.listing(unknown)}"
        )
    told = [f"{phrasing.sentence(part)}." for part in parts]
    return told[0], " ".join(told[1:])


def _truth_said(row: dict[str, Any]) -> str:
    r = phrasing.correlation(row["pearson"])
    if not math.isfinite(row["slope_low"]):
        return f"correlates at {r} (Pearson) with the cost of silencing a head"
    slope = (
        f"{phrasing.signed(row['slope'])}"
        f" ({phrasing.span(row['slope_low'], row['slope_high'], few='heads')})"
    )
    return (
        f"correlates at {r} (Pearson) with the cost of silencing a head; one standard deviation"
        f" more goes with {slope} nats"
    )
