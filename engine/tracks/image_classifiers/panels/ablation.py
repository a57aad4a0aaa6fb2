"""Which part of the PW loss helps, and where: weights or labels, in pruning, in retraining or in
both (Fig. 8)."""

from __future__ import annotations

from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.ids import at_level
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.classifier_lookup import paid_most
from engine.report.charts.columns import DIFFERENCE, GROUP, Column, readable, titled
from engine.report.charts.differences import add_differences, around_zero, as_change, verdict_on
from engine.report.charts.marks import hover, row_names
from engine.report.charts.panel import Choice, Panel, nothing, plain, wrapped
from engine.report.contract import Measure
from engine.report.palette import series_styles
from engine.store.runs import Run
from engine.store.tables import where
from engine.tracks.image_classifiers import words as own
from engine.tracks.image_classifiers.panels.lookup import PLAIN, PW, arm_groups, arm_of, pooled
from engine.tracks.image_classifiers.panels.pw import differences

QUESTION = "Which part of the PW loss helps, and where is it needed?"
PARTS = ("weights", "labels", PW)
PLACES = ("prune", "both", "retrain")
HEIGHT = 110
COLUMNS = (
    Column("part", "part", own.loss_name),
    Column("place", "place", own.PLACES.get),
    GROUP,
    *titled(speedup="target speedup"),
    *DIFFERENCE,
    *titled(p="p", n="images", n_trials="trials"),
)


def switches(run: Run) -> pd.DataFrame:
    """Arms of the run that use only a part of the PW loss, or it in one place: columns base,
    loss."""
    table = pooled(run)[["base", "loss"]].drop_duplicates()
    return table[~table["loss"].isin([PLAIN, PW])]


def ablation(run: Run, choice: Choice) -> Panel:
    """The difference from the plain loss of every part and place, for the subgroup that pays most
    and least."""
    base = _base_of(run, choice)
    if base is None:
        return nothing("ablation", QUESTION, "This run has no arms with a part of the PW loss.")
    table = _table(run, choice, base)
    if table.empty:
        return nothing(
            "ablation",
            QUESTION,
            "The parts of the PW loss were not compared with the plain loss here.",
        )
    measure, at = lookup.reading(run, choice).group, float(table["speedup"].iat[0])
    groups = list(dict.fromkeys(table["group"]))
    note = (
        f"{words.method_name(base)} at {at:g}×. Difference of {measure.name} from the same method"
        f" with the plain loss, same images. {own.INTERVALS_IMAGES} With so many comparisons one in"
        " twenty misses by chance."
    )
    answer = _answer(measure, table, groups[0])
    return Panel(
        "ablation",
        QUESTION,
        answer,
        _figure(choice, measure, table, groups),
        readable(table, COLUMNS),
        note,
    )


def _base_of(run: Run, choice: Choice) -> str | None:
    """The chosen method where it was taken apart, else the first that was."""
    found = switches(run)["base"].tolist()
    mine = arm_of(choice.method)[0]
    return mine if mine in found else (found[0] if found else None)


def _table(run: Run, choice: Choice, base: str) -> pd.DataFrame:
    """Rows of arm_differences at one speedup, of the subgroup that pays most under the plain loss
    and of the one that pays least; columns part and place are added."""
    metric = lookup.reading(run, choice).group.metric
    rows = [differences(run, choice, base, loss) for loss in (*switches(run)["loss"].unique(), PW)]
    table = pd.concat([part for part in rows if not part.empty] or [pd.DataFrame()])
    if table.empty:
        return table
    table = table[(table["metric"] == metric) & (table["group"] != "")]
    taken = sorted(table.loc[table["loss"] != PW, "speedup"].unique())
    wanted = lookup.level_of(run, choice)
    at = wanted if wanted in taken else taken[-1]
    table = table[at_level(table["speedup"], at)]
    plain_arm = arm_groups(run, choice, (PLAIN,))
    paid = plain_arm[(plain_arm["base"] == base) & at_level(plain_arm["speedup"], at)]
    found = paid_most(paid)
    order = (
        [] if found is None else [found.most["group"], paid.loc[paid["delta"].idxmax(), "group"]]
    )
    order = list(dict.fromkeys(order))
    table = table[table["group"].isin(order)]
    split = [loss.partition("@") for loss in table["loss"]]
    table = table.assign(
        part=[part for part, _, _ in split], place=[place or "both" for _, _, place in split]
    )
    by = {name: index for names in (order, PARTS, PLACES) for index, name in enumerate(names)}
    return table.sort_values(
        ["group", "place", "part"], key=lambda names: names.map(by), ignore_index=True
    )


def _figure(choice: Choice, measure: Measure, table: pd.DataFrame, groups: list[str]) -> go.Figure:
    """A row per place, points by part; filled for the subgroup that pays most, open for the
    other."""
    places = [place for place in PLACES if place in set(table["place"])][::-1]
    what = f"difference of {measure.name} from the plain loss"
    figure = around_zero(choice, 120 + HEIGHT * len(places), what, choice.theme.soft)
    for index, (part, style) in enumerate(zip(PARTS, series_styles(choice.dark), strict=False)):
        for other, group in enumerate(groups):
            mine = where(table, part=part, group=group)
            if mine.empty:
                continue
            y = [places.index(place) + 0.26 - 0.26 * index - 0.1 * other for place in mine["place"]]
            symbol = style.symbol + ("-open" if other else "")
            look = {"symbol": symbol, "line": {"width": 2, "color": style.colour}}
            name = plain(f"{own.loss_name(part)}: {words.group_name(group)}")
            add_differences(figure, mine, y, style, _hovers(measure, mine), look, 1.8, name=name)
    row_names(figure, [wrapped(own.PLACES[place], 14) for place in places], upwards=True)
    return figure


def _hovers(measure: Measure, table: pd.DataFrame) -> list[str]:
    return [
        hover(
            own.loss_name(row["loss"]),
            f"{plain(words.group_name(row['group']))}, {row['n']:.0f} images",
            measure.change(as_change(row)),
        )
        for row in table.to_dict("records")
    ]


def _answer(measure: Measure, table: pd.DataFrame, group: str) -> str:
    """For the subgroup that pays most: which switches help, and for which it cannot be told."""
    kinds: dict[str, list[dict[str, Any]]] = {"helps": [], "harms": [], "unclear": []}
    for row in table[table["group"] == group].to_dict("records"):
        kinds[verdict_on(measure, row)].append(row)
    parts = []
    for kind, verb in (("helps", "is helped by"), ("harms", "is harmed by")):
        if kinds[kind]:
            named = [f"{_switch(row)}, {measure.brief(as_change(row))}" for row in kinds[kind]]
            parts.append(f"{verb} {'; '.join(named)}")
    start = (
        f"{words.quoted(group)}, which pays most,"
        f" {' and '.join(parts) or 'is clearly helped by none'}"
    )
    if kinds["unclear"]:
        start += f"; for {phrasing.listing(map(_switch, kinds['unclear']), 8)} it cannot be told"
    return f"{start}."


def _switch(row: dict[str, Any]) -> str:
    if (row["part"], row["place"]) == (PW, "both"):
        return "the whole PW loss"
    return f"{own.loss_name(row['part'])} {own.PLACES[row['place']]}"
