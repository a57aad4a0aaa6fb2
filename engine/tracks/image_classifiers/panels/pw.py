"""Does the PW loss help: the paired difference between the same method with it and without it, per
subgroup."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.ids import at_level
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.classifier_lookup import DENSE, groups_in_order, paid_most, trials_said
from engine.report.charts.columns import BASE, DIFFERENCE, GROUP, MEASURE, Column, readable, titled
from engine.report.charts.differences import add_differences, around_zero, as_change, verdict_on
from engine.report.charts.marks import beside, remark, row_band, row_names
from engine.report.charts.panel import Choice, Panel, nothing, plain
from engine.report.contract import Measure
from engine.report.palette import Style
from engine.store.runs import Run
from engine.store.tables import where
from engine.tracks.image_classifiers import words as own
from engine.tracks.image_classifiers.panels.lookup import (
    PLAIN,
    PW,
    arm_groups,
    arm_name,
    arm_of,
    bases,
    loss_said,
)
from engine.tracks.image_classifiers.panels.speedup import drawn_groups

QUESTION = "Does the PW loss help the subgroup that pays most?"
COLUMNS = (
    BASE,
    Column("loss", "loss", own.loss_name),
    *titled(speedup="target speedup"),
    MEASURE,
    GROUP,
    *DIFFERENCE,
    *titled(p="p", n="images", n_trials="trials"),
)


def pw_difference(run: Run, choice: Choice) -> Panel:
    """PW minus plain per subgroup and speedup, for the chosen method."""
    base, loss = _arm(run, choice)
    table = differences(run, choice, base, loss)
    if table.empty:
        why = f"This audit has no {words.method_name(base)} both with the PW loss and without it."
        return nothing("pw_difference", QUESTION, why)
    measure = lookup.reading(run, choice).group
    groups = table[table["metric"] == measure.metric]
    styles = {
        group: style
        for group, style in drawn_groups(run, choice).items()
        if group in set(groups["group"])
    }
    figure = _figure(run, choice, measure, groups, styles, loss)
    answer, rest = _answer(run, choice, measure, table, base, loss)
    hidden = groups["group"].nunique() - len(styles)
    more = f" {hidden} more subgroups are in the table." if hidden else ""
    note = (
        f"Difference of {measure.name}: {loss_said(loss)} minus the plain loss, same images,"
        f" {trials_said(run)} each. {own.INTERVALS_IMAGES} Several intervals are read at once: one"
        f" in twenty misses by chance.{more}"
    )
    return Panel(
        "pw_difference", QUESTION, answer, figure, readable(table, COLUMNS), note, more=rest
    )


def differences(run: Run, choice: Choice, base: str, loss: str) -> pd.DataFrame:
    """Rows of arm_differences for a method and a loss on the measured axis: per subgroup, and of
    the gap."""
    if not run.has("arm_differences"):
        return pd.DataFrame()
    reading = lookup.reading(run, choice)
    table = lookup.frame(run, "arm_differences")
    mine = where(table, base=base, loss=loss, axis=choice.measured)
    mine = mine[
        mine["metric"].isin([reading.group.metric, reading.harm.metric]) & mine["value"].notna()
    ]
    known = {"", *groups_in_order(run, choice)}
    return mine[mine["group"].isin(known)].sort_values(
        ["speedup", "metric", "group"], ignore_index=True
    )


def _arm(run: Run, choice: Choice) -> tuple[str, str]:
    """The chosen method and its loss; the whole PW loss where the plain one is chosen, the first
    method where none."""
    base, loss = arm_of(choice.method)
    return bases(run)[0] if base == DENSE else base, PW if loss == PLAIN else loss


def _answer(
    run: Run, choice: Choice, measure: Measure, table: pd.DataFrame, base: str, loss: str
) -> tuple[str, str]:
    """For the subgroup that pays most without it: helps, harms or cannot be told; then by how much,
    the other speedups, the gap."""
    at = lookup.level_of(run, choice)
    without = arm_groups(run, choice, (PLAIN,))
    paid = paid_most(without[(without["base"] == base) & at_level(without["speedup"], at)])
    if paid is None:
        return f"Who pays most without it at {at:g}× cannot be told.", ""
    most, name = paid.most, words.quoted(paid.most["group"])
    mine = where(table, metric=measure.metric, group=most["group"])
    here = mine[at_level(mine["speedup"], at)]
    pays = (
        f"{name} pays most ({measure.change(most)})"
        if paid.clear
        else f"no subgroup clearly pays; lowest is {name}"
    )
    start = f"Cut to {at:g}× by {arm_name(base, PLAIN)}, {pays}"
    if here.empty:
        return f"{start}; with {loss_said(loss)} it was not measured there.", ""
    row, what = here.iloc[0].to_dict(), loss_said(loss)
    said = {
        "helps": f"{what} helps it here",
        "harms": f"{what} harms it here",
        "unclear": f"whether {what} helps it here cannot be told",
    }[verdict_on(measure, row)]
    trials = phrasing.count(int(row["n_trials"]), "trial")
    text = (
        f"{phrasing.sentence(what)}: {measure.change(as_change(row))}, n = {row['n']:.0f} images,"
        f" {trials}."
    )
    text += _elsewhere(measure, mine, at)
    text += _worst_off_said(run, choice, measure, table, at, most["group"])
    return f"{start}; {said}.", f"{text}{_gap_said(run, choice, table, at)}"


def _elsewhere(measure: Measure, mine: pd.DataFrame, at: float) -> str:
    """How the subgroup fares at the other speedups."""
    kinds = [
        verdict_on(measure, row) for row in mine[~at_level(mine["speedup"], at)].to_dict("records")
    ]
    if not kinds:
        return ""
    of, helps, harms = len(kinds), kinds.count("helps"), kinds.count("harms")
    many = phrasing.count(of, "other speedup")
    if helps == of:
        text = f"It helps at the {many} too" if of > 1 else "It helps at the other speedup too"
    else:
        text = (
            f"It helps at {helps} of the {many}"
            if helps
            else f"It clearly helps at none of the {many}"
        )
    return f" {text}{f' and harms at {harms}' if harms else ''}."


def _worst_off_said(
    run: Run, choice: Choice, measure: Measure, table: pd.DataFrame, at: float, said: str
) -> str:
    """What PW does to the subgroup that was worst off before the cut, where that is another one."""
    first = groups_in_order(run, choice)[:1]
    mine = table[(table["metric"] == measure.metric) & at_level(table["speedup"], at)]
    mine = mine[mine["group"].isin(first)]
    if mine.empty or first[0] == said:
        return ""
    row = mine.iloc[0].to_dict()
    verdict = {"helps": "it helps", "harms": "it harms", "unclear": "it cannot be told"}[
        verdict_on(measure, row)
    ]
    return (
        f" For {words.quoted(first[0])}, worst off before the cut, {verdict}:"
        f" {measure.brief(as_change(row))}."
    )


def _gap_said(run: Run, choice: Choice, table: pd.DataFrame, at: float) -> str:
    """What PW does to the gap at the chosen speedup."""
    harm = lookup.reading(run, choice).harm
    gap = table[(table["metric"] == harm.metric) & at_level(table["speedup"], at)]
    if gap.empty:
        return ""
    row = gap.iloc[0].to_dict()
    verb = {"helps": "shrinks", "harms": "grows", "unclear": "does not clearly change"}[
        verdict_on(harm, row)
    ]
    return f" The {harm.name} {verb} with it: {harm.change(as_change(row))}."


def _figure(
    run: Run,
    choice: Choice,
    measure: Measure,
    table: pd.DataFrame,
    styles: dict[str, Style],
    loss: str,
) -> go.Figure:
    """A row per speedup, a point with its interval per subgroup."""
    speedups, at = sorted(table["speedup"].unique())[::-1], lookup.level_of(run, choice)
    height = 130 + max(46, 24 * len(styles)) * len(speedups)
    figure = around_zero(choice, height, f"difference of {measure.name}", choice.theme.soft)
    if at in speedups:
        row_band(figure, choice, speedups.index(at), 0.48)
    shifts = beside(len(styles), -min(0.22, 0.7 / max(1, len(styles))))
    for (group, style), shift in zip(styles.items(), shifts, strict=True):
        mine, name = table[table["group"] == group], plain(words.group_name(group))
        y = [speedups.index(speedup) + shift for speedup in mine["speedup"]]
        add_differences(figure, mine, y, style, _hovers(measure, mine, name), name=name)
    row_names(figure, [f"{value:g}×" for value in speedups], upwards=True)
    figure.update_yaxes(title_text="target speedup")
    above = {"x": 0, "y": 1, "yref": "paper", "yanchor": "bottom"}
    remark(figure, choice, f"{own.loss_name(loss)} better →", **above, xanchor="left", xshift=6)
    remark(figure, choice, f"← {own.loss_name(loss)} worse", **above, xanchor="right", xshift=-6)
    figure.update_layout(legend={"y": 1.06}, margin={"t": 24})
    return figure


def _hovers(measure: Measure, table: pd.DataFrame, name: str) -> list[str]:
    return [
        f"<b>{name}</b>, {row['n']:.0f} images,"
        f" {row['speedup']:g}×<br>{measure.change(as_change(row))}"
        for row in table.to_dict("records")
    ]
