"""Does the score help? The paired difference between arms that differ in nothing but what picks the heads."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.levels import at_level
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.panel import Choice, Panel, blank, nothing, plain, wrapped
from engine.report.contract import Measure
from engine.report.palette import series_styles
from engine.store.runs import Run
from engine.tracks.text_classifiers import words as own
from engine.tracks.text_classifiers.panels.lookup import arm_of, groups_of_axis, level_of, seeds_said, task

RANDOM = "random"
LONGEST = 6
"""Groups drawn at most."""
MAX_Q = 0.05
"""False discovery rate up to which a difference is claimed."""


def score_difference(run: Run, choice: Choice) -> Panel:
    """The chosen score minus every other it was compared with, same procedure: all texts and every group."""
    procedure, score = _asked(run, choice)
    at = level_of(run, choice)
    table = differences(run, choice, procedure, score)
    others = [own.importance_name(str(other)) for other in dict.fromkeys(table["other"])] if len(table) else []
    question = f"Does {own.importance_name(score)} choose better heads than {_or(others)}?"
    if table.empty:
        what = f"{own.procedure_name(procedure)} by {own.importance_name(score)} and by another score"
        return nothing("score_difference", question, f"This audit does not compare {what} at {phrasing.percent(at)}.")
    figure = _figure(choice, table)
    n = phrasing.count(int(table["n"].max()), "test text")
    note = (
        f"Difference of {_measure(table.iloc[0].to_dict()).name}: {own.importance_name(score)} minus "
        f"the other score, {own.procedure_name(procedure)} at {phrasing.percent(at)}, same texts, {n}, {seeds_said(run)} "
        "each. "
        f"{own.INTERVALS_TEXTS} Several intervals are read at once: only differences with q (false discovery "
        f"rate) of at most {MAX_Q:g} are claimed."
    )
    return Panel(
        "score_difference", question, _answer(run, choice, table, procedure, score), figure, _readable(table), note
    )


def _asked(run: Run, choice: Choice) -> tuple[str, str]:
    """Procedure and score of the choice; where random choice was chosen, the score that it is a control for."""
    procedure, score = arm_of(choice.method)
    if run.has("arm_differences") and (score in (RANDOM, "") or choice.method == "dense"):
        rows = lookup.frame(run, "arm_differences")
        known = rows[rows["base"] == procedure] if (rows["base"] == procedure).any() else rows
        if len(known):
            ordered = [name for name in own.IMPORTANCE if name in set(known["score"])] or list(known["score"])
            return (procedure if (rows["base"] == procedure).any() else str(known["base"].iloc[0])), ordered[0]
    return procedure, score


def _or(others: list[str]) -> str:
    """ "random choice, magnitude or Michel"."""
    return " or ".join(filter(None, [", ".join(others[:-1]), others[-1]])) if others else "random choice"


def differences(run: Run, choice: Choice, procedure: str, score: str) -> pd.DataFrame:
    """Rows of arm_differences at the chosen level: the task's metric on all texts, accuracy of the axis' groups."""
    if not run.has("arm_differences"):
        return pd.DataFrame()
    table, metric = lookup.frame(run, "arm_differences"), task(run).metric
    rows = table[(table["base"] == procedure) & (table["score"] == score)]
    rows = rows[at_level(rows["sparsity"], level_of(run, choice))]
    whole = rows[(rows["axis"] == "") & (rows["metric"] == metric)]
    if whole.empty:
        whole = rows[(rows["axis"] == "") & (rows["metric"] == "accuracy")]
    groups = groups_of_axis(run, choice.measured)
    mine = rows[(rows["axis"] == choice.measured) & (rows["metric"] == "accuracy") & rows["group"].isin(groups)]
    found = pd.concat([whole, mine], ignore_index=True)
    order = {group: place for place, group in enumerate(["", *groups])}
    others = [RANDOM, *own.IMPORTANCE]
    place = found["other"].map(lambda other: others.index(other) if other in others else len(others))
    found = found.round({"value": 9, "low": 9, "high": 9})  # means of equal numbers differ in their last digits
    return found.assign(_group=found["group"].map(order), _other=place).sort_values(
        ["_other", "_group"], ignore_index=True
    )


def _measure(row: dict[str, Any]) -> Measure:
    return Measure(row["metric"], few="texts")


def _as_change(row: dict[str, Any]) -> dict[str, Any]:
    """A difference in the form of a change, for say.change."""
    return {"delta": row["value"], "delta_low": row["low"], "delta_high": row["high"]}


def _answer(run: Run, choice: Choice, table: pd.DataFrame, procedure: str, score: str) -> str:
    """On all texts, other by other; then the subgroups for which it helps or harms."""
    parts: list[str] = []
    name, arm = own.importance_name(score), own.procedure_name(procedure)
    for other, rows in table.groupby("other", sort=False):
        whole = rows[rows["group"] == ""]
        if len(whole):
            said = _said(whole.iloc[0].to_dict(), name, own.importance_name(str(other)))
            parts.append(phrasing.sentence(said) if parts else said)
        parts.append(_groups_said(rows[rows["group"] != ""]))
    start = f"{arm} at {phrasing.percent(level_of(run, choice))}: "
    return phrasing.sentence(start + " ".join(filter(None, parts)))


def kind_of(row: dict[str, Any]) -> str:
    """What say.direction gives, but "by chance" where the interval leaves out zero and q is too large for a claim."""
    kind = phrasing.direction(_as_change(row))
    return "by chance" if kind in ("rose", "fell") and not row["q"] <= MAX_Q else kind


def _said(row: dict[str, Any], name: str, other: str) -> str:
    change, kind = _measure(row).change(_as_change(row)), kind_of(row)
    verdict = {
        "rose": f"{name} chooses better than {other}",
        "fell": f"{name} chooses worse than {other}",
        "unclear": f"{name} and {other} cannot be told apart",
        "by chance": f"{name} and {other} cannot be told apart once all comparisons are counted",
    }.get(kind, f"whether {name} helps against {other} was not measured")
    q = f"; q = {phrasing.number(row['q'])}" if kind == "by chance" and math.isfinite(row["q"]) else ""
    return f"{verdict} ({_measure(row).name} {change}{q})."


def _groups_said(table: pd.DataFrame) -> str:
    kinds = {row["group"]: kind_of(row) for row in table.to_dict("records")}

    def named(kind: str) -> list[str]:
        return [words.quoted(group) for group, found in kinds.items() if found == kind]

    parts = [f"it {verb} {phrasing.listing(named(kind))}" for kind, verb in (("rose", "helps"), ("fell", "harms"))
             if named(kind)]  # fmt: skip
    text = f"Of the subgroups {' and '.join(parts)}." if parts else ""
    if not parts and kinds:
        text = "No subgroup alone shows a clear difference."
    if by_chance := named("by chance"):
        text += (
            f" The interval of {phrasing.listing(by_chance)} alone leaves out zero, which so many comparisons can give by "
            f"chance (q above {MAX_Q:g})."
        )
    return text


def _figure(choice: Choice, table: pd.DataFrame) -> go.Figure:
    """A row per group, a point per other score."""
    groups = [group for group in dict.fromkeys(table["group"])][: LONGEST + 1]
    others = list(dict.fromkeys(table["other"]))
    height = 110 + max(44, 22 * len(others) + 16) * len(groups)
    figure = blank(choice, height, "difference; right of zero: chosen better")
    figure.add_vline(x=0, line={"color": choice.theme.ink, "width": 1})
    for place, (other, style) in enumerate(zip(others, series_styles(choice.dark), strict=False)):
        rows = table[(table["other"] == other) & table["group"].isin(groups)].to_dict("records")
        shift = (place - (len(others) - 1) / 2) * 0.24
        value = [row["value"] for row in rows]
        bars = {"type": "data", "symmetric": False, "width": 0, "thickness": 1.8, "color": style.colour,
                "array": [row["high"] - row["value"] for row in rows],
                "arrayminus": [row["value"] - row["low"] for row in rows]}  # fmt: skip
        figure.add_trace(go.Scatter(
            x=value, y=[groups.index(row["group"]) + shift for row in rows], mode="markers", error_x=bars,
            marker={"symbol": style.symbol, "size": 10, "color": style.colour},
            name=f"against {own.importance_name(other)}", text=[_hover(row) for row in rows],
            hovertemplate="%{text}<extra></extra>", showlegend=True,
        ))  # fmt: skip
    labels = ["<b>all texts</b>" if not group else wrapped(words.group_name(group)) for group in groups]
    figure.update_yaxes(tickvals=list(range(len(groups))), ticktext=labels, showgrid=False,
                        range=[len(groups) - 0.4, -0.6])  # fmt: skip
    figure.update_xaxes(showgrid=True, nticks=6)
    return figure


def _hover(row: dict[str, Any]) -> str:
    whom = plain(words.group_name(row["group"])) if row["group"] else "all texts"
    text = f"<b>{whom}</b>, against {own.importance_name(row['other'])}<br>{_measure(row).name} "
    text += _measure(row).change(_as_change(row))
    return text + (f"<br>q = {phrasing.number(row['q'])}" if math.isfinite(row["q"]) else "")


def _readable(table: pd.DataFrame) -> pd.DataFrame:
    names = {"base": "procedure", "score": "score", "other": "against", "sparsity": "share asked", "group": "subgroup",
             "metric": "metric", "value": "difference", "low": "low", "high": "high", "p": "p", "q": "q", "n": "texts",
             "n_trials": "seeds"}  # fmt: skip
    shown = table.assign(
        base=table["base"].map(own.procedure_name), score=table["score"].map(own.importance_name),
        other=table["other"].map(own.importance_name), metric=table["metric"].map(words.metric_name),
        group=table["group"].map(lambda group: words.group_name(group) if group else "all texts"),
    )  # fmt: skip
    return shown[list(names)].rename(columns=names)
