"""Does the PW loss help: the paired difference between the same method with it and without it, per subgroup."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.levels import at_level
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.classifier_lookup import DENSE, groups_in_order, paid_most, trials_said
from engine.report.charts.panel import Choice, Panel, blank, nothing, plain
from engine.report.contract import Measure
from engine.report.palette import Style
from engine.store.runs import Run
from engine.tracks.image_classifiers import words as own
from engine.tracks.image_classifiers.panels.lookup import (
    PLAIN,
    PW,
    arm_groups,
    arm_name,
    arm_of,
    bases,
    loss_said,
    speedup_of,
)
from engine.tracks.image_classifiers.panels.speedup import drawn_groups

QUESTION = "Does the PW loss help the subgroup that pays most?"


def pw_difference(run: Run, choice: Choice) -> Panel:
    """PW minus plain per subgroup and speedup, for the chosen method."""
    base, loss = _arm(run, choice)
    table = differences(run, choice, base, loss)
    if table.empty:
        why = f"This audit has no {words.method_name(base)} both with the PW loss and without it."
        return nothing("pw_difference", QUESTION, why)
    measure = lookup.reading(run, choice).group
    groups = table[table["metric"] == measure.metric]
    styles = {group: style for group, style in drawn_groups(run, choice).items() if group in set(groups["group"])}
    figure = _figure(run, choice, measure, groups, styles, loss)
    answer = _answer(run, choice, measure, table, base, loss)
    hidden = groups["group"].nunique() - len(styles)
    more = f" {hidden} more subgroups are in the table." if hidden else ""
    note = (
        f"Difference of {measure.name}: {loss_said(loss)} minus the plain loss, same images, {trials_said(run)} each. "
        f"{own.INTERVALS_IMAGES} Several intervals are read at once: one in twenty misses by chance.{more}"
    )
    return Panel("pw_difference", QUESTION, answer, figure, _readable(table), note)


def differences(run: Run, choice: Choice, base: str, loss: str) -> pd.DataFrame:
    """Rows of arm_differences for a method and a loss on the measured axis: per subgroup, and of the gap."""
    if not run.has("arm_differences"):
        return pd.DataFrame()
    reading = lookup.reading(run, choice)
    table = lookup.frame(run, "arm_differences")
    mine = table[(table["base"] == base) & (table["loss"] == loss) & (table["axis"] == choice.measured)]
    mine = mine[mine["metric"].isin([reading.group.metric, reading.harm.metric]) & mine["value"].notna()]
    known = {"", *groups_in_order(run, choice)}
    return mine[mine["group"].isin(known)].sort_values(["speedup", "metric", "group"], ignore_index=True)


def verdict_on(measure: Measure, row: dict[str, Any]) -> str:
    """ "helps", "harms" or "unclear" from the interval of a difference."""
    if not (math.isfinite(row["low"]) and math.isfinite(row["high"])):
        return "unclear"
    better = row["low"] > 0 if measure.sign < 0 else row["high"] < 0
    worse = row["high"] < 0 if measure.sign < 0 else row["low"] > 0
    return "helps" if better else "harms" if worse else "unclear"


def difference_said(measure: Measure, row: dict[str, Any]) -> str:
    """The difference with its interval, and plainly when that includes zero."""
    return measure.change(as_change(row))


def as_change(row: dict[str, Any]) -> dict[str, Any]:
    """A row of arm_differences under the names of a change."""
    return {"delta": row["value"], "delta_low": row["low"], "delta_high": row["high"]}


def _arm(run: Run, choice: Choice) -> tuple[str, str]:
    """The chosen method and its loss; the whole PW loss where the plain one is chosen, the first method where none."""
    base, loss = arm_of(choice.method)
    return bases(run)[0] if base == DENSE else base, PW if loss == PLAIN else loss


def _answer(run: Run, choice: Choice, measure: Measure, table: pd.DataFrame, base: str, loss: str) -> str:
    """For the subgroup that pays most without it: helps, harms or cannot be told; then the other speedups, the gap."""
    at = speedup_of(run, choice)
    without = arm_groups(run, choice, (PLAIN,))
    paid = paid_most(without[(without["base"] == base) & at_level(without["speedup"], at)])
    if paid is None:
        return f"Who pays most without it at {at:g}× cannot be told."
    most = paid.most
    mine = table[(table["metric"] == measure.metric) & (table["group"] == most["group"])]
    here = mine[at_level(mine["speedup"], at)]
    name = words.quoted(most["group"])
    start = f"Cut to {at:g}× by {arm_name(base, PLAIN)}, {name} pays most ({measure.change(most)})"
    if not paid.clear:
        start = f"Cut to {at:g}× by {arm_name(base, PLAIN)}, no subgroup clearly pays; lowest is {name}"
    if here.empty:
        return f"{start}. With {loss_said(loss)} it was not measured there."
    row = here.iloc[0].to_dict()
    verdict = verdict_on(measure, row)
    said = {
        "helps": f"{loss_said(loss)} helps it here",
        "harms": f"{loss_said(loss)} harms it here",
        "unclear": f"whether {loss_said(loss)} helps it here cannot be told",
    }[verdict]
    text = f"{start}; {said}: {difference_said(measure, row)}, n = {row['n']:.0f} images, {_trials(row)}."
    text += f"{_elsewhere(measure, mine, at)}{_worst_off_said(run, choice, measure, table, at, most['group'])}"
    return f"{text}{_gap_said(run, choice, table, at)}"


def _trials(row: dict[str, Any]) -> str:
    return phrasing.count(int(row["n_trials"]), "trial")


def _elsewhere(measure: Measure, mine: pd.DataFrame, at: float) -> str:
    """The same subgroup at the other speedups."""
    kinds = [verdict_on(measure, row) for row in mine[~at_level(mine["speedup"], at)].to_dict("records")]
    if not kinds:
        return ""
    of, helps, harms = len(kinds), kinds.count("helps"), kinds.count("harms")
    many = phrasing.count(of, "other speedup")
    if helps == of:
        text = f"It helps at the {many} too" if of > 1 else "It helps at the other speedup too"
    else:
        text = f"It helps at {helps} of the {many}" if helps else f"It clearly helps at none of the {many}"
    return f" {text}{f' and harms at {harms}' if harms else ''}."


def _worst_off_said(run: Run, choice: Choice, measure: Measure, table: pd.DataFrame, at: float, said: str) -> str:
    """The same about the subgroup that was worst off before the cut, where that is another one."""
    first = groups_in_order(run, choice)[:1]
    mine = table[(table["metric"] == measure.metric) & at_level(table["speedup"], at)]
    mine = mine[mine["group"].isin(first)]
    if mine.empty or first[0] == said:
        return ""
    row = mine.iloc[0].to_dict()
    verdict = {"helps": "it helps", "harms": "it harms", "unclear": "it cannot be told"}[verdict_on(measure, row)]
    return f" For {words.quoted(first[0])}, worst off before the cut, {verdict}: {measure.brief(as_change(row))}."


def _gap_said(run: Run, choice: Choice, table: pd.DataFrame, at: float) -> str:
    """What it does to the gap at the chosen speedup."""
    harm = lookup.reading(run, choice).harm
    gap = table[(table["metric"] == harm.metric) & at_level(table["speedup"], at)]
    if gap.empty:
        return ""
    row = gap.iloc[0].to_dict()
    verb = {"helps": "shrinks", "harms": "grows", "unclear": "does not clearly change"}[verdict_on(harm, row)]
    return f" The {harm.name} {verb} with it: {difference_said(harm, row)}."


def _figure(
    run: Run, choice: Choice, measure: Measure, table: pd.DataFrame, styles: dict[str, Style], loss: str
) -> go.Figure:
    """A row per speedup, a point with its interval per subgroup."""
    speedups = sorted(table["speedup"].unique())[::-1]
    step = min(0.22, 0.7 / max(1, len(styles)))
    figure = blank(choice, 130 + max(46, 24 * len(styles)) * len(speedups), f"difference of {measure.name}")
    at = speedup_of(run, choice)
    if at in speedups:
        place = speedups.index(at)
        figure.add_hrect(y0=place - 0.48, y1=place + 0.48, fillcolor=choice.theme.band, line_width=0, layer="below")
    figure.add_vline(x=0, line={"color": choice.theme.soft, "width": 1})
    for index, (group, style) in enumerate(styles.items()):
        mine = table[table["group"] == group]
        shift = step * ((len(styles) - 1) / 2 - index)
        y = [speedups.index(speedup) + shift for speedup in mine["speedup"]]
        figure.add_trace(_points(measure, mine, group, style, y))
    figure.update_yaxes(tickvals=list(range(len(speedups))), ticktext=[f"{value:g}×" for value in speedups])
    figure.update_yaxes(range=[-0.6, len(speedups) - 0.4], showgrid=False, title_text="target speedup")
    figure.update_xaxes(showgrid=True, nticks=6)
    for anchor, text in (("left", f"{own.loss_name(loss)} better →"), ("right", f"← {own.loss_name(loss)} worse")):
        figure.add_annotation(
            x=0, y=1, yref="paper", yanchor="bottom", xanchor=anchor, xshift=6 if anchor == "left" else -6, text=text,
            showarrow=False, font={"size": 11, "color": choice.theme.soft},
        )  # fmt: skip
    figure.update_layout(legend={"y": 1.06}, margin={"t": 24})
    return figure


def _points(measure: Measure, table: pd.DataFrame, group: str, style: Style, y: list[float]) -> go.Scatter:
    bars = {"type": "data", "symmetric": False, "array": table["high"] - table["value"], "width": 0,
            "arrayminus": table["value"] - table["low"], "color": style.colour, "thickness": 2}  # fmt: skip
    hover = [
        f"<b>{plain(words.group_name(group))}</b>, {row['n']:.0f} images, {row['speedup']:g}×<br>"
        f"{difference_said(measure, row)}"
        for row in table.to_dict("records")
    ]
    return go.Scatter(
        x=table["value"], y=y, mode="markers", error_x=bars, name=plain(words.group_name(group)), text=hover,
        marker={"symbol": style.symbol, "size": 10, "color": style.colour}, hovertemplate="%{text}<extra></extra>",
    )  # fmt: skip


def _readable(table: pd.DataFrame) -> pd.DataFrame:
    names = {"base": "method", "loss": "loss", "speedup": "target speedup", "metric": "measure", "group": "subgroup",
             "value": "difference", "low": "low", "high": "high", "p": "p", "n": "images",
             "n_trials": "trials"}  # fmt: skip
    shown = table.assign(
        base=table["base"].map(words.method_name), loss=table["loss"].map(own.loss_name),
        metric=table["metric"].map(words.metric_name), group=table["group"].map(words.group_name),
    )  # fmt: skip
    return shown[[name for name in names if name in shown]].rename(columns=names)
