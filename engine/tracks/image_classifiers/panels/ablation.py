"""Which part of the PW loss helps, and where: weights or labels, in pruning, in retraining or in both (Fig. 8)."""

from __future__ import annotations

from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.levels import at_level
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.classifier_lookup import paid_most
from engine.report.charts.panel import Choice, Panel, blank, nothing, plain, wrapped
from engine.report.contract import Measure
from engine.report.palette import Style, series_styles
from engine.store.runs import Run
from engine.tracks.image_classifiers import words as own
from engine.tracks.image_classifiers.panels.lookup import PLAIN, PW, arm_groups, arm_of, pooled, speedup_of
from engine.tracks.image_classifiers.panels.pw import as_change, difference_said, differences, verdict_on

QUESTION = "Which part of the PW loss helps, and where is it needed?"
PARTS = ("weights", "labels", PW)
PLACES = ("prune", "both", "retrain")
HEIGHT = 110


def switches(run: Run) -> pd.DataFrame:
    """Arms of the run that use only a part of the PW loss, or it in one place: columns base, loss."""
    table = pooled(run)[["base", "loss"]].drop_duplicates()
    return table[~table["loss"].isin([PLAIN, PW])]


def ablation(run: Run, choice: Choice) -> Panel:
    """The difference from the plain loss of every part and place, for the subgroup that pays most and least."""
    base = _base_of(run, choice)
    if base is None:
        return nothing("ablation", QUESTION, "This run has no arms with a part of the PW loss.")
    table = _table(run, choice, base)
    if table.empty:
        return nothing("ablation", QUESTION, "The parts of the PW loss were not compared with the plain loss here.")
    measure, at = lookup.reading(run, choice).group, float(table["speedup"].iat[0])
    groups = list(dict.fromkeys(table["group"]))
    note = (
        f"{words.method_name(base)} at {at:g}×. Difference of {measure.name} from the same method with the plain loss, "
        f"same images. {own.INTERVALS_IMAGES} With so many comparisons one in twenty misses by chance."
    )
    answer = _answer(measure, table, groups[0])
    return Panel("ablation", QUESTION, answer, _figure(choice, measure, table, groups), _readable(table), note)


def _base_of(run: Run, choice: Choice) -> str | None:
    """The chosen method where it was taken apart, else the first that was."""
    found = switches(run)["base"].tolist()
    mine = arm_of(choice.method)[0]
    return mine if mine in found else (found[0] if found else None)


def _table(run: Run, choice: Choice, base: str) -> pd.DataFrame:
    """Rows of arm_differences at one speedup, of the subgroup that pays most under the plain loss and of the one that
    pays least; columns part and place are added."""
    metric = lookup.reading(run, choice).group.metric
    rows = [differences(run, choice, base, loss) for loss in (*switches(run)["loss"].unique(), PW)]
    table = pd.concat([part for part in rows if not part.empty] or [pd.DataFrame()])
    if table.empty:
        return table
    table = table[(table["metric"] == metric) & (table["group"] != "")]
    taken = sorted(table.loc[table["loss"] != PW, "speedup"].unique())
    wanted = speedup_of(run, choice)
    at = wanted if wanted in taken else taken[-1]
    table = table[at_level(table["speedup"], at)]
    plain_arm = arm_groups(run, choice, (PLAIN,))
    paid = plain_arm[(plain_arm["base"] == base) & at_level(plain_arm["speedup"], at)]
    found = paid_most(paid)
    order = (
        [] if found is None else list(dict.fromkeys([found.most["group"], paid.loc[paid["delta"].idxmax(), "group"]]))
    )
    table = table[table["group"].isin(order)]
    split = [loss.partition("@") for loss in table["loss"]]
    table = table.assign(part=[part for part, _, _ in split], place=[place or "both" for _, _, place in split])
    by = {name: index for names in (order, PARTS, PLACES) for index, name in enumerate(names)}
    return table.sort_values(["group", "place", "part"], key=lambda names: names.map(by), ignore_index=True)


def _figure(choice: Choice, measure: Measure, table: pd.DataFrame, groups: list[str]) -> go.Figure:
    """A row per place, points by part; filled for the subgroup that pays most, open for the other."""
    places = [place for place in PLACES if place in set(table["place"])][::-1]
    figure = blank(choice, 120 + HEIGHT * len(places), f"difference of {measure.name} from the plain loss")
    figure.add_vline(x=0, line={"color": choice.theme.soft, "width": 1})
    styles = dict(zip(PARTS, series_styles(choice.dark), strict=False))
    for index, part in enumerate(PARTS):
        for other, group in enumerate(groups):
            mine = table[(table["part"] == part) & (table["group"] == group)]
            if not mine.empty:
                shift = 0.26 - 0.26 * index - 0.1 * other
                y = [places.index(place) + shift for place in mine["place"]]
                figure.add_trace(_points(measure, mine, styles[part], y, group, other == 0))
    names = [wrapped(own.PLACES[place], 14) for place in places]
    figure.update_yaxes(tickvals=list(range(len(places))), ticktext=names, showgrid=False)
    figure.update_yaxes(range=[-0.6, len(places) - 0.4])
    figure.update_xaxes(showgrid=True, nticks=6)
    return figure


def _points(measure: Measure, table: pd.DataFrame, style: Style, y: list[float], group: str, first: bool) -> go.Scatter:
    bars = {"type": "data", "symmetric": False, "array": table["high"] - table["value"], "width": 0,
            "arrayminus": table["value"] - table["low"], "color": style.colour, "thickness": 1.8}  # fmt: skip
    name = f"{own.loss_name(str(table['part'].iat[0]))}: {words.group_name(group)}"
    hover = [
        f"<b>{own.loss_name(row['loss'])}</b><br>{plain(words.group_name(group))}, {row['n']:.0f} images<br>"
        f"{difference_said(measure, row)}"
        for row in table.to_dict("records")
    ]
    marker = {"symbol": style.symbol + ("" if first else "-open"), "size": 10, "color": style.colour,
              "line": {"width": 2, "color": style.colour}}  # fmt: skip
    return go.Scatter(x=table["value"], y=y, mode="markers", error_x=bars, name=plain(name), text=hover, marker=marker,
                      hovertemplate="%{text}<extra></extra>")  # fmt: skip


def _answer(measure: Measure, table: pd.DataFrame, group: str) -> str:
    """For the subgroup that pays most: which switches help, which cannot be told."""
    kinds: dict[str, list[dict[str, Any]]] = {"helps": [], "harms": [], "unclear": []}
    for row in table[table["group"] == group].to_dict("records"):
        kinds[verdict_on(measure, row)].append(row)
    parts = []
    for kind, verb in (("helps", "is helped by"), ("harms", "is harmed by")):
        if kinds[kind]:
            named = [f"{_switch(row)}, {measure.brief(as_change(row))}" for row in kinds[kind]]
            parts.append(f"{verb} {'; '.join(named)}")
    start = f"{words.quoted(group)}, which pays most, {' and '.join(parts) or 'is clearly helped by none'}"
    if kinds["unclear"]:
        start += f"; for {phrasing.listing(map(_switch, kinds['unclear']), 8)} it cannot be told"
    return f"{start}."


def _switch(row: dict[str, Any]) -> str:
    if (row["part"], row["place"]) == (PW, "both"):
        return "the whole PW loss"
    return f"{own.loss_name(row['part'])} {own.PLACES[row['place']]}"


def _readable(table: pd.DataFrame) -> pd.DataFrame:
    names = {"part": "part", "place": "place", "group": "subgroup", "speedup": "target speedup", "value": "difference",
             "low": "low", "high": "high", "p": "p", "n": "images", "n_trials": "trials"}  # fmt: skip
    shown = table.assign(
        part=table["part"].map(own.loss_name), place=table["place"].map(own.PLACES),
        group=table["group"].map(words.group_name),
    )  # fmt: skip
    return shown[list(names)].rename(columns=names)
