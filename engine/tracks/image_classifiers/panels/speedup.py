"""Which subgroup pays at which speedup: one column per method, with and without the PW loss (Fig. 1
of the paper)."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.types import Values, at_level
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.kinds import add_points, beside, diagonal, dot, entry, lines
from engine.report.charts.lookup import axis_note, groups_in_order, paid_most, pooled
from engine.report.charts.panel import Choice, Panel, nothing, plain, ratio_axis
from engine.report.palette import Style, pair_style, series_styles
from engine.report.schema import hovers, readable
from engine.report.tracks import Measure, track_of
from engine.store.runs import Run, where
from engine.tracks.image_classifiers import words as own

# Reading the tables of an image run: arms, their trials, and the groups that may be compared.


PLAIN, PW = "plain", "pw"


def bases(run: Run) -> list[str]:
    """Methods of the run without their losses, in the order of the track."""
    found = list(dict.fromkeys(pooled(run)["base"]))
    return [name for name in track_of(run).methods.order(found) if name in found]


def arm_groups(run: Run, choice: Choice, losses: tuple[str, ...] = (PLAIN, PW)) -> pd.DataFrame:
    """The choice's measure per subgroup of every arm with one of these losses, at every speedup.

    Columns: base, loss, speedup, achieved, degenerate, group, value, low, high, n, delta,
    delta_low, delta_high, verdict; only subgroups that may be compared.
    """
    metric = lookup.reading(run, choice).group.metric
    rows = lookup.frame(run, "groups")
    rows = where(rows, metric=metric, axis=choice.measured, split=lookup.REPORTED)
    rows = rows[rows["verdict"] == ""].drop(columns=["split", "axis", "metric"])
    arms = pooled(run)
    arms = arms[arms["loss"].isin(losses)]
    columns = ["variant", "base", "loss", "speedup", "achieved", "degenerate"]
    return (
        arms[columns]
        .merge(rows, on="variant")
        .sort_values(["base", "loss", "speedup"], ignore_index=True)
    )


def missed(run: Run, variant: str) -> str:
    """What every trial of a pooled variant reached, where some miss the target; else ""."""
    trials = where(run.table("variants"), pooled=variant)
    wrong = int((~trials["met"].astype(bool)).sum())
    if not wrong:
        return ""
    got = phrasing.listing(f"{one:.4g}×" for one in trials["achieved"])
    miss = "misses" if wrong == 1 else "miss"
    aim = phrasing.factor(trials["speedup"].iloc[0])
    return f"{wrong} of {len(trials)} trials {miss} {aim} by more than 0.1 %: {got}"


def arm_name(base: str, loss: str) -> str:
    """An arm in words."""
    return words.method_name(base if loss == PLAIN else f"{base}+{loss}")


def loss_said(loss: str) -> str:
    """A loss inside a sentence."""
    return "the PW loss" if loss == PW else own.loss_name(loss)


# How each method looks with each loss, in every chart.


LOOKS = {
    "autobot": ("#0072B2", "#56B4E9", "square", "solid"),
    "taylor": ("#882255", "#D46A98", "triangle-up", "solid"),
    "fpgm": ("#CC79A7", "#E59BC3", "pentagon", "solid"),
    "magnitude": ("#009E73", "#2CC79B", "diamond", "solid"),
    "by hand": ("#6A3D9A", "#B794F4", "hexagon", "dot"),
    "random": ("#7a7a7a", "#b0b0b0", "x", "solid"),
}
BY_LOSS = {"": ("-open", "dot"), "pw": ("", "solid")}
"""What ends the symbol of a method, and its dash, by the loss: filled and solid with the whole PW
loss."""


def arm_style(arm: str, dark: bool) -> Style:
    """A method with a loss, "taylor+pw": the method's colour and symbol; filling and dash tell the
    loss."""
    return pair_style(arm, "+", LOOKS, BY_LOSS, dark)


SHOWN = ("change", "level")
LONGEST = 4
"""Subgroups drawn at most, those that lose most; the table always has all of them."""
HEIGHT = 380
FAR = 4.0
"""Smallest speedup from which on the dense model is left out of the axis: it would take half of it.
"""
CHANGE_SAID = "A change is the cut model's value minus the dense model's on the same images."
_DASH, _OPEN = {PLAIN: "dot", PW: "solid"}, {PLAIN: "-open", PW: ""}
ENDS, CHANGES = ("value", "low", "high"), ("delta", "delta_low", "delta_high")
_SAID = {PLAIN: "plain loss", PW: "PW loss"}
COLUMNS = "base loss speedup achieved group value low high delta delta_low delta_high n degenerate"


@dataclass(frozen=True)
class _Look:
    """What all columns of one chart share. `room`: what their y axes span."""

    measure: Measure
    is_change: bool
    styles: dict[str, Style]
    room: tuple[float, float]


def groups_along_speedup(run: Run, choice: Choice, show: str = "change") -> Panel:
    """A line per subgroup and loss against the speedup; `show`: the change since the dense model,
    or the level."""
    measure, axis = lookup.reading(run, choice).group, words.axis_name(choice.measured)
    question = f"Which subgroup of {axis} pays, at which speedup?"
    table = arm_groups(run, choice)
    if table.empty:
        return nothing(
            "groups_along_speedup", question, "No subgroup of this axis can be compared."
        )
    drawn = drawn_groups(run, choice)
    columns = [base for base in bases(run) if base in set(table["base"])]
    is_change = show == "change"
    look = _Look(measure, is_change, drawn, _range(table, drawn, is_change))
    parts = tuple(_column(run, choice, look, table[table["base"] == base]) for base in columns)
    more = (
        f"{CHANGE_SAID}{_left_out(run, choice, drawn)} {track_of(run).flags.said}"
        f" {axis_note(run, choice)}"
    )
    note = lookup.caveat(run, None, more=more)
    answer, rest = _answer(run, choice, measure, table, columns)
    shown = readable(table, COLUMNS, loss=own.loss_name, n="images")
    return Panel("groups_along_speedup", question, answer, None, shown, note, parts, more=rest)


def _column(run: Run, choice: Choice, look: _Look, table: pd.DataFrame) -> go.Figure:
    """One method, with its own title and legend."""
    looks = {
        _line_said(group, loss): replace(style, symbol=style.symbol + _OPEN[loss], dash=_DASH[loss])
        for group, style in look.styles.items()
        for loss in (PLAIN, PW)
    }
    figure = lines(
        choice,
        _drawn(run, look, table),
        "x",
        "value",
        looks,
        (
            "speedup (FLOPs)",
            f"change of {look.measure.name}" if look.is_change else look.measure.title,
        ),
        by="line",
        named=str,
        height=_height(look.styles, 300),
        title=plain(arm_name(table["base"].iat[0], PLAIN)),
        bars="- value",
        level=(0, "") if look.is_change else None,
        ticks="",
        showlegend=False,
    )
    _stars(run, choice, figure, look.room, table)
    ratio_axis(figure, table["achieved"], [*([] if _is_far(table) else [1.0]), *table["speedup"]])
    figure.update_yaxes(range=list(look.room))
    _legend(choice, figure, look.styles)
    return figure


def _drawn(run: Run, look: _Look, table: pd.DataFrame) -> pd.DataFrame:
    """What the lines are drawn of: each from the dense model on, without it where it would take
    half of the axis; the lines a little apart."""
    rows = table[table["group"].isin(look.styles)]
    asides = dict(zip(look.styles, beside(len(look.styles), 1), strict=True))
    aside = rows["group"].map(asides) + rows["loss"].map({PLAIN: -0.25, PW: 0.25})
    wrong = [_wrong(run, row) if row["degenerate"] else "" for row in rows.to_dict("records")]
    said = hovers(
        rows.assign(degenerate=wrong),
        "group base loss achieved speedup value delta n degenerate",
        loss=own.loss_name,
        value=look.measure.name,
    )
    ends = CHANGES if look.is_change else ENDS
    names = [
        _line_said(group, loss) for group, loss in zip(rows["group"], rows["loss"], strict=True)
    ]
    drawn = rows.assign(hover=said, line=names)
    drawn = drawn.assign(x=rows["achieved"] * 2 ** (0.035 * aside))
    drawn = drawn.assign(**{name: rows[end] for name, end in zip(ENDS, ends, strict=True)})
    if _is_far(table):
        return drawn
    dense = drawn.drop_duplicates("line").assign(x=1.0, hover="uncut", low=math.nan, high=math.nan)
    dense = dense.assign(value=0.0 if look.is_change else dense["value"] - dense["delta"])
    return pd.concat([dense, drawn], ignore_index=True)


def _line_said(group: str, loss: str) -> str:
    return plain(f"{words.group_name(group)}, {_SAID[loss]}")


def _height(groups: Collection[str], width: int) -> int:
    """Room for the plot and for the legend above it, on so many pixels."""
    longest = max((len(words.group_name(group)) for group in groups), default=0)
    per_row = max(1, width // (55 + 7 * max(longest, len(_SAID[PLAIN]))))
    return HEIGHT - 40 + 20 * math.ceil((len(groups) + 2) / per_row)


def _stars(
    run: Run, choice: Choice, figure: go.Figure, room: tuple[float, float], table: pd.DataFrame
) -> None:
    """A star at the lower edge for every arm and speedup with degenerate trials."""
    wrong = table[table["degenerate"] > 0].drop_duplicates(["loss", "speedup"])
    if wrong.empty:
        return
    rows, colour = wrong.to_dict("records"), choice.theme.alarm
    texts = [
        f"<b>{arm_name(row['base'], row['loss'])}</b>, {row['speedup']:g}×<br>{_wrong(run, row)}"
        for row in rows
    ]
    symbols = ["star-open" if row["loss"] == PLAIN else "star" for row in rows]
    x = [row["achieved"] * 2 ** (0.12 if row["loss"] == PW else -0.12) for row in rows]
    y = [room[0] + 0.035 * (room[1] - room[0])] * len(rows)
    marker = {
        "symbol": symbols,
        "size": 13,
        "color": colour,
        "line": {"width": 1.5, "color": colour},
    }
    add_points(figure, x, y, texts, marker, showlegend=False, cliponaxis=False)


def _legend(choice: Choice, figure: go.Figure, styles: dict[str, Style]) -> None:
    """Subgroups by colour and symbol, losses by dash and filling."""
    for group, style in styles.items():
        entry(figure, plain(words.group_name(group)), mode="markers", marker=dot(style, 9))
    ink = choice.theme.ink
    for loss, symbol in ((PW, "circle"), (PLAIN, "circle-open")):
        marker = {"symbol": symbol, "size": 7, "color": ink, "line": {"width": 2, "color": ink}}
        line = {"color": ink, "dash": _DASH[loss], "width": 2}
        entry(figure, _SAID[loss], mode="lines+markers", line=line, marker=marker)


def drawn_groups(run: Run, choice: Choice) -> dict[str, Style]:
    """The subgroups in the charts of an axis, those that lose most in any arm, with colour and
    symbol."""
    worst = set(
        arm_groups(run, choice)
        .groupby("group")["delta"]
        .min()
        .sort_values(kind="stable")
        .index[:LONGEST]
    )
    groups = [group for group in groups_in_order(run, choice) if group in worst]
    return dict(zip(groups, series_styles(choice.dark), strict=False))


def _is_far(table: pd.DataFrame) -> bool:
    return bool(table["speedup"].min() > FAR)


def _wrong(run: Run, row: Values) -> str:
    trials = phrasing.count(int(run.request["trials"]), "trial")
    return f"{int(row['degenerate'])} of {trials} predict{'s' * (row['degenerate'] == 1)} one class"


def _range(table: pd.DataFrame, groups: Collection[str], is_change: bool) -> tuple[float, float]:
    """What every column's y axis spans: all values with their intervals, and the dense model."""
    mine = table[table["group"].isin(groups)]
    dense = [0.0] if is_change else list(mine["value"] - mine["delta"])
    columns = list(CHANGES if is_change else ENDS)
    values = [*mine[columns].to_numpy(dtype=float).ravel(), *dense]
    known = [value for value in values if math.isfinite(value)]
    low, high = min(known), max(known)
    room = 0.08 * (high - low) or 0.01
    return low - 1.6 * room, high + room


def _left_out(run: Run, choice: Choice, drawn: Collection[str]) -> str:
    """Subgroups without a line, and why."""
    known = groups_in_order(run, choice)
    hidden, text = len(known) - len(drawn), ""
    if hidden > 0:
        text += (
            f" The chart shows the {len(drawn)} subgroups that lose most; {hidden} more are in the"
            " table."
        )
    rows = lookup.groups_of(run, "dense", lookup.reading(run, choice).group.metric, choice.measured)
    for verdict, few in rows[~rows["group"].isin(known)].groupby("verdict"):
        text += f" Left out: {phrasing.listing(few['group'].map(words.quoted))} ({verdict})."
    return text


def _answer(
    run: Run, choice: Choice, measure: Measure, table: pd.DataFrame, columns: Sequence[str]
) -> tuple[str, str]:
    """At the chosen speedup: who pays most under the chosen method and its plain loss, and what
    that subgroup pays under PW; then the same of the other methods."""
    at = lookup.level_of(run, choice)
    here = table[at_level(table["speedup"], at)]
    first = sorted(columns, key=lambda base: base != choice.method.partition("+")[0])
    parts = [
        part for base in first if (part := _base_said(measure, here[here["base"] == base], base))
    ]
    if not parts:
        return f"Nothing was measured at {at:g}×.", ""
    answer = f"Change of {measure.name} at {track_of(run).level.say(at)}: {parts[0]}."
    return answer, phrasing.sentences(parts[1:])


def _base_said(measure: Measure, table: pd.DataFrame, base: str) -> str:
    first = PLAIN if (table["loss"] == PLAIN).any() else PW
    paid = paid_most(table[table["loss"] == first])
    if paid is None:
        return ""
    most = paid.most
    name, group = arm_name(base, first), words.quoted(most["group"])
    if not paid.clear:
        text = (
            f"{name} leaves no subgroup clearly worse off; the lowest change is that of {group}: "
            f"{measure.brief(most)}"
        )
    else:
        text = f"{name} costs {group} most: {measure.brief(most)}"
    same = where(table, loss=PW, group=most["group"])
    if first == PLAIN and not same.empty:
        text += f", with PW {measure.brief(same.iloc[0].to_dict())}"
    doubt = paid.doubt(measure)
    return f"{text}, though {doubt}" if doubt else text


# Is the speedup real: what FLOPs promise against the time that was measured, every arm.


TIME_QUESTION = "Does the promised speedup arrive?"
TIME_COLUMNS = "method target theoretical speedup speedup_low speedup_high n trials"
TIME_HEADS = {"target": "target speedup", "theoretical": "speedup by FLOPs", "speedup": "measured"}


def speed(run: Run, choice: Choice) -> Panel:
    """Measured against theoretical speedup; on the dashed line the promise is kept."""
    table = _table(run, choice)
    if table.empty:
        return nothing("speed", TIME_QUESTION, "This run has no measured times.")
    made = run.meta.get("provenance", {})
    device = made.get("device_name") or made.get("device", "") or "an unknown device"
    note = (
        f"Time of each method's first trial, cut and dense in turn, on {device}. Bars hold the "
        "middle half of the paired ratios. Other machines differ."
    )
    answer, figure = _speed_answer(run, choice, table), _figure(run, choice, table)
    ends = {"speedup_low": "measured low", "speedup_high": "measured high", "n": "timings"}
    table["trials"] = [missed(run, name) for name in table["variant"]]
    here = where(table, method=choice.method)
    wrong = "".join(here.loc[at_level(here["target"], choice.level), "trials"])
    heads = {**TIME_HEADS, **ends, "trials": "trials that miss the target"}
    shown = readable(table, TIME_COLUMNS, **heads)
    return Panel("speed", TIME_QUESTION, answer, figure, shown, note, mind=wrong and f"{wrong}.")


def _figure(run: Run, choice: Choice, table: pd.DataFrame) -> go.Figure:
    figure = lines(
        choice,
        table.assign(hover=hovers(table, "method target theoretical speedup", **TIME_HEADS)),
        "theoretical",
        "speedup",
        {name: lookup.look_of(run, choice, name) for name in dict.fromkeys(table["method"])},
        ("speedup by FLOPs", "speedup as measured"),
        bars="- speedup",
        ticks="",
    )
    most = float(table["theoretical"].max())
    diagonal(figure, choice, 1.0, most, name="promise kept", showlegend=None)
    ratio_axis(figure, table["theoretical"], table["target"])
    ticks = sorted({1.0, *table["target"]})
    figure.update_yaxes(type="log", tickvals=ticks, ticktext=[f"{value:g}×" for value in ticks])
    return figure


def _measured(row: Values) -> str:
    return f"{row['speedup']:.2f}× ({row['speedup_low']:.2f} to {row['speedup_high']:.2f})"


def _table(run: Run, choice: Choice) -> pd.DataFrame:
    track, variants = track_of(run), lookup.reported(run)
    arms = variants[["variant", "method", "speedup"]].rename(columns={"speedup": "target"})
    table = lookup.table(run, "costs", "variant speedup").astype({"variant": str})
    table = table.merge(arms, on="variant")
    table = table[(table["method"] != "dense") & table["speedup"].notna()]
    shown = track.methods.compared(track.methods.order(set(table["method"])), choice.method)
    return table[table["method"].isin(shown)].sort_values(["method", "target"], ignore_index=True)


def _speed_answer(run: Run, choice: Choice, table: pd.DataFrame) -> str:
    if choice.method == "dense" or choice.level <= track_of(run).level.none:
        return "Nothing is cut here; the chart shows what was measured for every method."
    mine = table[(table["method"] == choice.method) & at_level(table["target"], choice.level)]
    if mine.empty:
        return "The time of the chosen variant was not measured."
    row = mine.iloc[0].to_dict()
    promise = row["theoretical"]
    part = (
        phrasing.percent(round(row["speedup"] / promise, 2))
        if math.isfinite(promise) and promise
        else ""
    )
    dense = lookup.frame(run, "costs").query("variant == 'dense'").to_dict("records")
    kind = phrasing.pace(row, dense[0] if dense else None)
    verdict = "not clearly faster" if kind == "unclear" else kind
    return (
        f"{words.method_name(choice.method)} at {choice.level:g}×: by FLOPs"
        f" {phrasing.factor(promise)} as fast, measured {_measured(row)}, {part} of the promise:"
        f" {verdict} than the dense model."
    )
