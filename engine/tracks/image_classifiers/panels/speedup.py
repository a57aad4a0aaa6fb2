"""Which subgroup pays at which speedup: one column per method, with and without the PW loss (Fig. 1 of the paper)."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.levels import at_level
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.classifier_lookup import axis_note, groups_in_order, paid_most
from engine.report.charts.panel import Choice, Panel, blank, nothing, plain, ratio_axis
from engine.report.contract import Measure
from engine.report.palette import Style, series_styles
from engine.report.tracks import track_of
from engine.store.runs import Run
from engine.tracks.image_classifiers import words as own
from engine.tracks.image_classifiers.panels.lookup import PLAIN, PW, arm_groups, arm_name, bases, speedup_of

SHOWN = ("change", "level")
LONGEST = 4
"""Subgroups drawn at most, those that lose most; the table always has all of them."""
HEIGHT = 380
FAR = 4.0
"""Smallest speedup from which on the dense model is left out of the axis: it would take half of it."""
CHANGE = "A change is the cut model's value minus the dense model's on the same images."
_DASH = {PLAIN: "dot", PW: "solid"}
_SAID = {PLAIN: "plain loss", PW: "PW loss"}


def groups_along_speedup(run: Run, choice: Choice, show: str = "change") -> Panel:
    """A line per subgroup and loss against the speedup; `show`: the change since the dense model, or the level."""
    measure, axis = lookup.reading(run, choice).group, words.axis_name(choice.measured)
    question = f"Which subgroup of {axis} pays, at which speedup?"
    table = arm_groups(run, choice)
    if table.empty:
        return nothing("groups_along_speedup", question, "No subgroup of this axis can be compared.")
    drawn = drawn_groups(run, choice)
    columns = [base for base in bases(run) if base in set(table["base"])]
    draw = _Drawing(run, choice, measure, show, drawn, _range(table, list(drawn), show))
    parts = tuple(draw.column(table, base) for base in columns)
    more = f"{CHANGE}{_left_out(run, choice, drawn)} {track_of(run).flags_said} {axis_note(run, choice)}"
    note = lookup.caveat(run, None, more=more)
    answer = _answer(run, choice, measure, table, columns)
    return Panel("groups_along_speedup", question, answer, None, _readable(table), note, parts)


def drawn_groups(run: Run, choice: Choice) -> dict[str, Style]:
    """The subgroups in the charts of an axis, those that lose most in any arm, with colour and symbol."""
    worst = set(arm_groups(run, choice).groupby("group")["delta"].min().sort_values().index[:LONGEST])
    groups = [group for group in groups_in_order(run, choice) if group in worst]
    return dict(zip(groups, series_styles(choice.dark), strict=False))


class _Drawing:
    """The columns of one chart, drawn alike."""

    def __init__(
        self, run: Run, choice: Choice, measure: Measure, show: str, styles: dict[str, Style], room: tuple[float, float]
    ) -> None:
        self.run, self.choice, self.measure, self.show = run, choice, measure, show
        self.groups, self.room, self.styles = list(styles), room, styles

    @property
    def y_title(self) -> str:
        return f"change of {self.measure.name}" if self.show == "change" else self.measure.title

    def column(self, table: pd.DataFrame, base: str) -> go.Figure:
        """One method, with its own title and legend."""
        mine = table[table["base"] == base]
        figure = blank(self.choice, self._height(300), y=self.y_title)
        self._lines(figure, mine)
        self._axes(figure, mine)
        self._legend(figure)
        figure.add_annotation(
            x=0.5, xref="paper", y=1, yref="paper", yanchor="bottom", showarrow=False,
            text=f"<b>{plain(arm_name(base, PLAIN))}</b>", font={"size": 14},
        )  # fmt: skip
        figure.update_layout(legend={"y": 1.09}, margin={"t": 30})
        return figure

    def _height(self, width: int) -> int:
        """Room for the plot and for the legend above it, on so many pixels."""
        longest = max(len(words.group_name(group)) for group in self.groups) if self.groups else 0
        per_row = max(1, width // (55 + 7 * max(longest, len(_SAID[PLAIN]))))
        return HEIGHT - 40 + 20 * math.ceil((len(self.groups) + 2) / per_row)

    def _lines(self, figure: go.Figure, table: pd.DataFrame) -> None:
        if self.show == "change":
            figure.add_hline(y=0, line={"color": self.choice.theme.soft, "width": 1})
        for place, group in enumerate(self.groups):
            for loss in (PLAIN, PW):
                mine = table[(table["group"] == group) & (table["loss"] == loss)]
                if not mine.empty:
                    shift = place - (len(self.groups) - 1) / 2 + (0.25 if loss == PW else -0.25)
                    figure.add_trace(self._line(mine, group, loss, shift))
        stars = self._stars(table)
        if stars is not None:
            figure.add_trace(stars)

    def _line(self, table: pd.DataFrame, group: str, loss: str, shift: float) -> go.Scatter:
        """One subgroup under one loss, from the dense model on."""
        style, is_change = self.styles[group], self.show == "change"
        value, low, high = (table[f"delta{end}" if is_change else end.lstrip("_") or "value"] for end in
                            ("", "_low", "_high"))  # fmt: skip
        rows = table.to_dict("records")
        dense = 0.0 if is_change else rows[0]["value"] - rows[0]["delta"]
        start, uncut = ([], []) if _is_far(table) else ([dense], [f"<b>{plain(words.group_name(group))}</b>, uncut"])
        x = [*(1.0 for _ in start), *(row["achieved"] * 2 ** (0.035 * shift) for row in rows)]
        none = [0.0 for _ in start]
        bars = {"type": "data", "symmetric": False, "array": [*none, *(high - value)], "width": 0,
                "arrayminus": [*none, *(value - low)], "color": style.colour, "thickness": 1.2}  # fmt: skip
        marker = {"symbol": style.symbol + ("-open" if loss == PLAIN else ""), "size": 8, "color": style.colour,
                  "line": {"width": 2, "color": style.colour}}  # fmt: skip
        return go.Scatter(
            x=x, y=[*start, *value], mode="lines+markers", error_y=bars, marker=marker, showlegend=False,
            line={"color": style.colour, "dash": _DASH[loss], "width": 2}, opacity=0.95,
            name=f"{plain(words.group_name(group))}, {_SAID[loss]}",
            text=[*uncut, *(self._hover(row) for row in rows)],
            hovertemplate="%{text}<extra></extra>",
        )  # fmt: skip

    def _hover(self, row: dict[str, Any]) -> str:
        text = f"<b>{plain(words.group_name(row['group']))}</b>, {row['n']:.0f} images"
        text += (
            f"<br>{arm_name(row['base'], row['loss'])}, {phrasing.factor(row['achieved'])} (asked {row['speedup']:g}×)"
        )
        text += f"<br>{self.measure.name} {self.measure.with_interval(row)}<br>change {self.measure.change(row)}"
        return text + (f"<br>{_wrong(self.run, row)}" if row["degenerate"] else "")

    def _stars(self, table: pd.DataFrame) -> go.Scatter | None:
        """A star at the lower edge for every arm and speedup with degenerate trials."""
        wrong = table[table["degenerate"] > 0].drop_duplicates(["loss", "speedup"])
        if wrong.empty:
            return None
        rows = wrong.to_dict("records")
        texts = [
            f"<b>{arm_name(row['base'], row['loss'])}</b>, {row['speedup']:g}×<br>{_wrong(self.run, row)}"
            for row in rows
        ]
        symbols = ["star-open" if row["loss"] == PLAIN else "star" for row in rows]
        x = [row["achieved"] * 2 ** (0.12 if row["loss"] == PW else -0.12) for row in rows]
        y = self.room[0] + 0.035 * (self.room[1] - self.room[0])
        colour = self.choice.theme.alarm
        return go.Scatter(
            x=x, y=[y] * len(rows), mode="markers", text=texts, hovertemplate="%{text}<extra></extra>",
            marker={"symbol": symbols, "size": 13, "color": colour, "line": {"width": 1.5, "color": colour}},
            showlegend=False, cliponaxis=False,
        )  # fmt: skip

    def _axes(self, figure: go.Figure, table: pd.DataFrame) -> None:
        ratio_axis(figure, table["achieved"], [*([] if _is_far(table) else [1.0]), *table["speedup"]])
        figure.update_xaxes(title_text="speedup (FLOPs)")
        figure.update_yaxes(range=list(self.room), nticks=7)

    def _legend(self, figure: go.Figure) -> None:
        """Subgroups by colour and symbol, losses by dash and filling."""
        for group in self.groups:
            style = self.styles[group]
            marker = {"symbol": style.symbol, "size": 9, "color": style.colour}
            _entry(figure, plain(words.group_name(group)), mode="markers", marker=marker)
        ink = self.choice.theme.ink
        for loss in (PW, PLAIN):
            marker = {"symbol": "circle" + ("-open" if loss == PLAIN else ""), "size": 7, "color": ink,
                      "line": {"width": 2, "color": ink}}  # fmt: skip
            _entry(figure, _SAID[loss], mode="lines+markers", line={"color": ink, "dash": _DASH[loss], "width": 2},
                   marker=marker)  # fmt: skip


def _is_far(table: pd.DataFrame) -> bool:
    return bool(table["speedup"].min() > FAR)


def _entry(figure: go.Figure, name: str, **more: Any) -> None:
    """Something that is only in the legend."""
    figure.add_trace(go.Scatter(x=[None], y=[None], name=name, showlegend=True, hoverinfo="skip", **more))


def _wrong(run: Run, row: dict[str, Any]) -> str:
    trials = int(run.meta["request"]["trials"])
    return f"{int(row['degenerate'])} of {phrasing.count(trials, 'trial')} predict{'s' * (row['degenerate'] == 1)} one class"


def _range(table: pd.DataFrame, groups: Sequence[str], show: str) -> tuple[float, float]:
    """What every column's y axis spans: all values with their intervals, and the dense model."""
    mine = table[table["group"].isin(groups)]
    columns = ["delta", "delta_low", "delta_high"] if show == "change" else ["value", "low", "high"]
    values = [*mine[columns].to_numpy(dtype=float).ravel(), *([0.0] if show == "change" else [])]
    values += [] if show == "change" else list(mine["value"] - mine["delta"])
    known = [value for value in values if math.isfinite(value)]
    low, high = min(known), max(known)
    room = 0.08 * (high - low) or 0.01
    return low - 1.6 * room, high + room


def _left_out(run: Run, choice: Choice, drawn: Collection[str]) -> str:
    """Subgroups without a line, and why."""
    known = groups_in_order(run, choice)
    hidden, text = len(known) - len(drawn), ""
    if hidden > 0:
        text += f" The chart shows the {len(drawn)} subgroups that lose most; {hidden} more are in the table."
    rows = lookup.groups_of(run, "dense", lookup.reading(run, choice).group.metric, choice.measured)
    for verdict, few in rows[~rows["group"].isin(known)].groupby("verdict"):
        text += f" Left out: {phrasing.listing(few['group'].map(words.quoted))} ({verdict})."
    return text


def _answer(run: Run, choice: Choice, measure: Measure, table: pd.DataFrame, columns: Sequence[str]) -> str:
    """At the chosen speedup, method by method: who pays most under the plain loss, and what the same pays under PW."""
    at = speedup_of(run, choice)
    here = table[at_level(table["speedup"], at)]
    parts = [part for base in columns if (part := _base_said(measure, here[here["base"] == base], base))]
    return (
        f"Change of {measure.name} at {track_of(run).level.say(at)}. {'; '.join(parts)}."
        if parts
        else f"Nothing was measured at {at:g}×."
    )


def _base_said(measure: Measure, table: pd.DataFrame, base: str) -> str:
    first = PLAIN if (table["loss"] == PLAIN).any() else PW
    paid = paid_most(table[table["loss"] == first])
    if paid is None:
        return ""
    most = paid.most
    name, group = arm_name(base, first), words.quoted(most["group"])
    if not paid.clear:
        text = f"{name} costs no subgroup clearly, lowest is {group}: {measure.brief(most)}"
    else:
        text = f"{name} costs {group} most: {measure.brief(most)}"
    same = table[(table["loss"] == PW) & (table["group"] == most["group"])]
    if first == PLAIN and not same.empty:
        text += f", with PW {measure.brief(same.iloc[0].to_dict())}"
    doubt = paid.doubt(measure)
    return f"{text}, though {doubt}" if doubt else text


def _readable(table: pd.DataFrame) -> pd.DataFrame:
    names = {"base": "method", "loss": "loss", "speedup": "target speedup", "achieved": "achieved speedup",
             "group": "subgroup", "value": "value", "low": "low", "high": "high", "delta": "change",
             "delta_low": "change low", "delta_high": "change high", "n": "images",
             "degenerate": "degenerate trials"}  # fmt: skip
    shown = table.assign(
        base=table["base"].map(words.method_name), loss=table["loss"].map(own.loss_name),
        group=table["group"].map(words.group_name),
    )  # fmt: skip
    return shown[list(names)].rename(columns=names)
