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
from engine.report.charts.columns import DIFFERENCE, METHOD, Column, group_or, readable, titled
from engine.report.charts.differences import (
    BY_CHANCE,
    MAX_Q,
    add_differences,
    around_zero,
    as_change,
    direction,
    q_said,
)
from engine.report.charts.marks import (
    add_points,
    bars_of,
    beside,
    dot,
    entry,
    hover,
    null_band,
    row_names,
    title,
)
from engine.report.charts.panel import Choice, Panel, blank, nothing, plain, wrapped
from engine.report.charts.reliability_parts import marker
from engine.report.contract import Measure
from engine.report.palette import series_styles
from engine.store.runs import Run
from engine.tracks.text_classifiers import words as own
from engine.tracks.text_classifiers.panels.importance import importance
from engine.tracks.text_classifiers.panels.lookup import (
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
COLUMNS = (
    Column("base", "procedure", own.procedure_name),
    Column("score", "score", own.importance_name),
    Column("other", "against", own.importance_name),
    *titled(sparsity="share asked"),
    Column("group", "subgroup", group_or("all texts")),
    Column("metric", "metric", words.metric_name),
    *DIFFERENCE,
    *titled(p="p", q="q", n="texts", n_trials="seeds"),
)


def score_difference(run: Run, choice: Choice) -> Panel:
    """The chosen score minus every other it was compared with, same procedure: all texts and every
    group."""
    procedure, score = _asked(run, choice)
    at = phrasing.percent(lookup.level_of(run, choice))
    table = differences(run, choice, procedure, score)
    name, arm = own.importance_name(score), own.procedure_name(procedure)
    others = (
        [own.importance_name(str(other)) for other in dict.fromkeys(table["other"])]
        if len(table)
        else []
    )
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
    return Panel(
        "score_difference", question, answer, figure, readable(table, COLUMNS), note, more=rest
    )


def _asked(run: Run, choice: Choice) -> tuple[str, str]:
    """Procedure and score of the choice; where random choice was chosen, the score that it is a
    control for."""
    procedure, score = arm_of(choice.method)
    if run.has("arm_differences") and (score in (RANDOM, "") or choice.method == "dense"):
        rows = lookup.frame(run, "arm_differences")
        known = rows[rows["base"] == procedure] if (rows["base"] == procedure).any() else rows
        if len(known):
            ordered = [name for name in own.IMPORTANCE if name in set(known["score"])] or list(
                known["score"]
            )
            return (
                procedure if (rows["base"] == procedure).any() else str(known["base"].iloc[0])
            ), ordered[0]
    return procedure, score


def _or(others: list[str]) -> str:
    """ "random choice, magnitude or Michel"."""
    return (
        " or ".join(filter(None, [", ".join(others[:-1]), others[-1]]))
        if others
        else "random choice"
    )


def differences(run: Run, choice: Choice, procedure: str, score: str) -> pd.DataFrame:
    """Rows of arm_differences at the chosen level: the task's metric on all texts, accuracy of the
    axis' groups."""
    if not run.has("arm_differences"):
        return pd.DataFrame()
    table, metric = lookup.frame(run, "arm_differences"), task(run).metric
    rows = table[(table["base"] == procedure) & (table["score"] == score)]
    rows = rows[at_level(rows["sparsity"], lookup.level_of(run, choice))]
    whole = rows[(rows["axis"] == "") & (rows["metric"] == metric)]
    if whole.empty:
        whole = rows[(rows["axis"] == "") & (rows["metric"] == "accuracy")]
    groups = groups_of_axis(run, choice.measured)
    mine = rows[
        (rows["axis"] == choice.measured)
        & (rows["metric"] == "accuracy")
        & rows["group"].isin(groups)
    ]
    found = pd.concat([whole, mine], ignore_index=True)
    order = {group: place for place, group in enumerate(["", *groups])}
    others = [RANDOM, *own.IMPORTANCE]
    place = found["other"].map(
        lambda other: others.index(other) if other in others else len(others)
    )
    found = found.round(
        {"value": 9, "low": 9, "high": 9}
    )  # means of equal numbers differ in their last digits
    return found.assign(_group=found["group"].map(order), _other=place).sort_values(
        ["_other", "_group"], ignore_index=True
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
        whole = rows[rows["group"] == ""]
        if len(whole):
            said = _said(whole.iloc[0].to_dict(), name, own.importance_name(str(other)))
            parts.append(phrasing.sentence(said) if parts else said)
        parts.append(_groups_said(rows[rows["group"] != ""]))
    start = f"{arm} at {phrasing.percent(lookup.level_of(run, choice))}: "
    told = [part for part in parts if part]
    return phrasing.sentence(start + "".join(told[:1])), " ".join(told[1:])


def _said(row: dict[str, Any], name: str, other: str) -> str:
    change, kind = _measure(row).change(as_change(row)), direction(row)
    verdict = {
        "rose": f"{name} chooses better than {other}",
        "fell": f"{name} chooses worse than {other}",
        "unclear": f"{name} and {other} cannot be told apart",
        BY_CHANCE: f"{name} and {other} cannot be told apart once all comparisons are counted",
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
    text = f"Of the subgroups {' and '.join(parts)}." if parts else ""
    text = "No subgroup alone shows a clear difference." if kinds and not parts else text
    if by_chance := kinds.get(BY_CHANCE):
        text += (
            f" The interval of {phrasing.listing(by_chance)} alone leaves out zero, which so many"
            " comparisons can "
        )
        text += f"give by chance (q above {MAX_Q:g})."
    return text


def _figure(choice: Choice, table: pd.DataFrame) -> go.Figure:
    """A row per group, a point per other score."""
    groups, others = (
        list(dict.fromkeys(table["group"]))[: LONGEST + 1],
        list(dict.fromkeys(table["other"])),
    )
    height = 110 + max(44, 22 * len(others) + 16) * len(groups)
    figure = around_zero(
        choice, height, "difference; right of zero: chosen better", choice.theme.ink
    )
    for other, style, shift in zip(
        others, series_styles(choice.dark), beside(len(others), 0.24), strict=False
    ):
        rows = table[(table["other"] == other) & table["group"].isin(groups)]
        y = [groups.index(group) + shift for group in rows["group"]]
        name = f"against {own.importance_name(other)}"
        add_differences(
            figure, rows, y, style, _hovers(rows), thickness=1.8, name=name, showlegend=True
        )
    row_names(
        figure,
        ["<b>all texts</b>" if not group else wrapped(words.group_name(group)) for group in groups],
    )
    return figure


def _hovers(table: pd.DataFrame) -> list[str]:
    found = []
    for row in table.to_dict("records"):
        whom, measure = plain(group_or("all texts")(row["group"])), _measure(row)
        head = f"<b>{whom}</b>, against {own.importance_name(row['other'])}"
        found.append(
            "<br>".join(
                filter(
                    None, [head, f"{measure.name} {measure.change(as_change(row))}", q_said(row)]
                )
            )
        )
    return found


CLAIMED_Q = 0.05
"""Largest false discovery rate at which an arm is said to beat chance."""
APART = 0.012
CHANCE_COLUMNS = (
    METHOD,
    Column("group", "subgroup", group_or("all texts")),
    *titled(sparsity="share asked"),
    Column("metric", "metric", words.metric_name),
    *titled(value="mean of seeds", percentile="percentile"),
    *titled(
        p="p",
        q="q",
        null_mean="random masks, mean",
        null_low="random masks, low",
        null_high="random masks, high",
    ),
    *titled(n_masks="random masks", n_seeds="seeds", n="texts"),
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
    (answer, rest), figure = (
        _chance_answer(run, choice, table, measure),
        _chance_figure(choice, table, measure),
    )
    return Panel(
        "tickets_chance", question, answer, figure, readable(table, CHANCE_COLUMNS), note, more=rest
    )


def ranks(run: Run, axis: str = "", group: str = "") -> pd.DataFrame:
    """Rows of random_ranks about all texts or one group, by share and percentile; empty in runs
    that have none."""
    if not run.has("random_ranks"):
        return pd.DataFrame()
    table = lookup.frame(run, "random_ranks")
    rows = table[(table["axis"] == axis) & (table["group"] == group)]
    return rows.sort_values(["sparsity", "percentile"], ascending=[True, False], ignore_index=True)


def _chance_figure(choice: Choice, table: pd.DataFrame, measure: Measure) -> go.Figure:
    figure = blank(choice, 380, "share of heads cut", measure.title)
    band = table.drop_duplicates("sparsity")
    null_band(
        figure, choice, *(band[name].tolist() for name in ("sparsity", "null_low", "null_high"))
    )
    line = {"color": choice.theme.soft, "dash": "dot", "width": 1.4}
    figure.add_scatter(
        x=band["sparsity"],
        y=band["null_mean"],
        mode="lines",
        line=line,
        hoverinfo="skip",
        name="random masks: mean and 95 %",
    )
    names = list(dict.fromkeys(table["method"]))
    for method, shift in zip(names, beside(len(names), APART), strict=True):
        rows, style = table[table["method"] == method], arm_style(method, choice.dark)
        hovers = [_chance_hover(row, measure) for row in rows.to_dict("records")]
        marker = dot(style, 13 if method == choice.method else 9, 1.6)
        add_points(
            figure, rows["sparsity"] + shift, rows["value"], hovers, marker, showlegend=False
        )
        entry(figure, words.method_name(method), mode="markers", marker=dot(style, 9, 1.6))
    figure.update_xaxes(tickformat=".0%", nticks=6, tickangle=0)
    figure.update_yaxes(nticks=7)
    figure.update_layout(height=380 + 20 * ((len(names) + 2) // 2))
    return figure


def _chance_hover(row: dict[str, Any], measure: Measure) -> str:
    lines = (
        f"{measure.name} {measure.number(row['value'])}",
        f"{_place(row)} of {row['n_masks']} random masks",
        f"p = {phrasing.number(row['p'])}, q = {phrasing.number(row['q'])}",
    )
    return hover(
        f"{words.method_name(row['method'])}, {phrasing.percent(row['sparsity'])} asked", *lines
    )


def _place(row: dict[str, Any]) -> str:
    """E.g. "97th percentile"."""
    at = round(100 * row["percentile"])
    ending = "th" if 10 < at % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(at % 10, "th")
    return f"{at}{ending} percentile"


def _chance_answer(
    run: Run, choice: Choice, table: pd.DataFrame, measure: Measure
) -> tuple[str, str]:
    """At the chosen level, or the middle one: who beats chance; then each arm's percentile and
    p-value."""
    level = lookup.level_of(run, choice)
    known = sorted(table["sparsity"].unique())
    level = level if at_level(table["sparsity"], level).any() else known[len(known) // 2]
    rows = table[at_level(table["sparsity"], level)].to_dict("records")
    better = [words.method_name(row["method"]) for row in rows if row["q"] <= CLAIMED_Q]
    many = f"{rows[0]['n_masks']} random masks"
    verb = "stands" if len(better) == 1 else "stand"
    start = (
        f"{phrasing.listing(better)} {verb} above what {many} give"
        if better
        else f"no arm can be told from {many}"
    )
    each = [
        f"{words.method_name(row['method'])} {_place(row)} (p = {phrasing.number(row['p'])})"
        for row in rows
    ]
    at = f"With {phrasing.percent(level)} of heads cut and nothing trained again"
    band = f"random masks: {measure.name} {measure.number(rows[0]['null_mean'])}"
    band += (
        f", 95 % from {measure.number(rows[0]['null_low'])} to"
        f" {measure.number(rows[0]['null_high'])}"
    )
    return (
        f"{at} {start} (q at most {CLAIMED_Q:g}).",
        f"{phrasing.sentence('; '.join(each))}; {band}.",
    )


METRIC = "loss"
"""What silencing a head costs is drawn in: the loss sees every text, accuracy only those that tip
over."""
TRUTH_COLUMNS = (
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
    parts = (_slopes(choice, mine), _truth_scatter(run, choice, score))
    note = (
        f"{own.TRUTH} Costs in nats of cross-entropy, mean over {trials_said(run)}; the table has"
        " accuracy too."
    )
    answer, rest = _truth_answer(mine, score)
    return Panel(
        "score_truth",
        question,
        answer,
        None,
        readable(table, TRUTH_COLUMNS),
        note,
        parts,
        True,
        more=rest,
    )


def _slopes(choice: Choice, table: pd.DataFrame) -> go.Figure:
    """A row per score: slope with its interval, the correlation beside its name."""
    figure = blank(choice, 110 + 46 * len(table), "slope: nats per standard deviation of the score")
    figure.add_vline(x=0, line={"color": choice.theme.ink, "width": 1})
    texts = [_truth_hover(row) for row in table.to_dict("records")]
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


def _truth_hover(row: dict[str, Any]) -> str:
    slope = phrasing.with_interval(row["slope"], row["slope_low"], row["slope_high"], few="heads")
    both = (
        f"Pearson {phrasing.correlation(row['pearson'])}, Spearman"
        f" {phrasing.correlation(row['spearman'])}"
    )
    return hover(own.importance_name(row["score"]), f"slope {slope}", both)


def _truth_scatter(run: Run, choice: Choice, score: str) -> go.Figure:
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
        parts.append(f"not told apart from knowing nothing: {phrasing.listing(unknown)}")
    told = [f"{phrasing.sentence(part)}." for part in parts]
    return told[0], " ".join(told[1:])


def _truth_said(row: dict[str, Any]) -> str:
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
