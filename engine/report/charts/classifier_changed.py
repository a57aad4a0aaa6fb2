"""Which test images or texts changed class when a classifier was cut: per subgroup, and one by one
for a gallery."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.classifier_lookup import CLASS_AXIS, DENSE, trials_of
from engine.report.charts.marks import bars, row_names, silent
from engine.report.charts.panel import Choice, Panel, blank, nothing, wrapped
from engine.report.schema import readable
from engine.report.tracks import track_of
from engine.store.runs import Run

KINDS = {
    "wrong": "newly wrong",
    "right": "newly right",
    "other": "wrong either way",
}
"""What happened to an image or text whose predicted class changed. The third needs three classes.
"""
GALLERY_ORDER = ("wrong", "other", "right")
LONGEST = 16
Z = 1.96
COLUMNS = f"group images changed {' '.join(KINDS)} share low high"


def key_of(run: Run) -> str:
    """The column that names what was measured on, an image or a text."""
    return f"{track_of(run).item}_id"


def keeps_answers(run: Run) -> bool:
    """Whether the run kept what its models answered to each image or text."""
    return run.has("predictions") and run.has(track_of(run).items)


def changes(run: Run, variant: str) -> pd.DataFrame:
    """One row per test image or text: its columns, true class, class before and after (indices) and
    kind ("" where the same). Also how sure each model was of the class it chose.
    """
    items, table, key = (
        lookup.frame(run, track_of(run).items),
        lookup.frame(run, "predictions"),
        key_of(run),
    )
    columns = [name for name in table.columns if name.startswith("p_")]
    found = items.copy(deep=False)
    for side, name in (("before", _uncut(table, variant)), ("after", variant)):
        mine = table[table["variant"] == name].set_index(key)[columns].reindex(items[key])
        answers = mine.to_numpy(dtype=float)
        known = np.isfinite(answers).all(axis=1)
        found[side] = np.where(known, np.nan_to_num(answers).argmax(axis=1), -1)
        found[f"sure_{side}"] = np.nan_to_num(answers).max(axis=1)
    found = found[(found["before"] >= 0) & (found["after"] >= 0)]
    truth, before, after = (found[name] for name in ("label", "before", "after"))
    kind = np.select(
        [before == after, before == truth, after == truth], ["", "wrong", "right"], default="other"
    )
    return found.assign(kind=kind).reset_index(drop=True)


def _uncut(predictions: pd.DataFrame, variant: str) -> str:
    """The dense model that a seed's variant was cut from: the seed's own, where each seed trained
    it."""
    own = f"{DENSE}#{variant.rpartition('#')[2]}"
    return own if (predictions["variant"] == own).any() else DENSE


def groups_of_images(run: Run, table: pd.DataFrame, axis: str) -> pd.Series:
    """The subgroup of every image or text on an axis: a column, the class itself, or parts joined
    by "+".

    Read from the run by id: what `changes` adds to the table can have the name of a user's column.
    """
    classes, key = run.meta["data"]["classes"], key_of(run)
    items = lookup.frame(run, track_of(run).items).set_index(key)
    parts, table = [], items.loc[table[key]].set_index(table.index)
    for part in axis.split("+"):
        if part in table:
            parts.append(table[part].astype(str))
        elif part == CLASS_AXIS:
            parts.append(table["label"].map(lambda label: classes[int(label)]))
        else:
            return pd.Series("", index=table.index)
    joined = parts[0] if len(parts) == 1 else parts[0].str.cat(parts[1:], sep=" + ")
    return table[axis].astype(str) if axis in table else joined


def changed_by_group(run: Run, choice: Choice, trial: int = 0) -> Panel:
    """Share of each subgroup's images or texts that changed class in one trial or seed, with Wilson
    intervals."""
    axis, track = words.axis_name(choice.measured), track_of(run)
    question, key = (
        f"Which subgroups of {axis} have {track.items} that change class?",
        f"changed_{track.items}",
    )
    trials = trials_of(run, choice)
    if trials.empty:
        return nothing(key, question, f"Nothing is cut here, so no {track.item} changes class.")
    mine = trials[trials["seed"] == trial]
    if mine.empty or not keeps_answers(run):
        return nothing(key, question, f"This run kept no predictions for this {track.repeat}.")
    table = counted(run, choice, changes(run, mine["variant"].iat[0]))
    if table.empty:
        return nothing(key, question, f"No test {track.item} belongs to a subgroup of this axis.")
    n = phrasing.count(int(table["images"].sum()), f"test {track.item}")
    note = (
        f"One {track.repeat} ({trial}), {n}. Newly wrong: the {track.whole} was right. Intervals: "
        f"Wilson, 95 %, over the {track.items} of this {track.repeat}; of differences: "
        "Newcombe's, from these two. Overlapping Wilson intervals are no test."
    )
    figure, shown = (
        _figure(choice, table, track.items),
        readable(table, COLUMNS, **KINDS, share="share changed", images=track.items),
    )
    answer, more = _answer(table), f"{_counts(table)}{_compared(table)}"
    return Panel(key, question, answer, figure, shown, note, more=more)


def counted(run: Run, choice: Choice, table: pd.DataFrame) -> pd.DataFrame:
    """Per subgroup: images, changed, wrong, right, other, share with low and high; the most changed
    first."""
    grouped = table.assign(group=groups_of_images(run, table, choice.measured))
    rows = []
    for group, part in grouped[grouped["group"] != ""].groupby("group"):
        kinds = {kind: int((part["kind"] == kind).sum()) for kind in KINDS}
        changed = sum(kinds.values())
        low, high = wilson(changed, len(part))
        rows.append(
            {
                "group": group,
                "images": len(part),
                "changed": changed,
                **kinds,
                "share": changed / len(part),
                "low": low,
                "high": high,
            }
        )
    found = pd.DataFrame(rows)
    return found if found.empty else found.sort_values("share", ascending=False, ignore_index=True)


def wilson(count: int, n: int) -> tuple[float, float]:
    """95 % interval of a share (Wilson 1927): honest for small n and for shares near 0 and 1."""
    if n == 0:
        return math.nan, math.nan
    share, square = count / n, Z * Z
    middle, reach = (
        share + square / (2 * n),
        Z * math.sqrt(share * (1 - share) / n + square / (4 * n * n)),
    )
    return max(0.0, (middle - reach) / (1 + square / n)), min(
        1.0, (middle + reach) / (1 + square / n)
    )


def difference(count: int, n: int, other: int, other_n: int) -> tuple[float, float]:
    """95 % interval of a share minus an independent other one (Newcombe 1998, method 10: from both
    Wilson's)."""
    share, second = count / n, other / other_n
    (low, high), (second_low, second_high) = wilson(count, n), wilson(other, other_n)
    down, up = (
        math.hypot(share - low, second_high - second),
        math.hypot(high - share, second - second_low),
    )
    return share - second - down, share - second + up


def gallery(
    run: Run, choice: Choice, trial: int = 0, group: str = "", kind: str = ""
) -> pd.DataFrame:
    """Changed images or texts of one subgroup and kind ("" for all): those with a picture first,
    newly wrong before newly right, the surest answers first.

    Columns: those of the images or texts, group, before, after, sure_before, sure_after, kind, png
    (None where there is none).
    """
    trials = trials_of(run, choice)
    mine = trials[trials["seed"] == trial]
    if mine.empty:
        return pd.DataFrame(columns=[key_of(run), "kind", "png"])
    table = changes(run, mine["variant"].iat[0])
    table = table.assign(group=groups_of_images(run, table, choice.measured))
    table = table[(table["kind"] != "") & ((table["kind"] == kind) | (kind == ""))]
    table = table[(table["group"] == group) | (group == "")]
    pictures = (
        lookup.frame(run, "thumbs").set_index("image_id")["png"]
        if run.has("thumbs")
        else pd.Series(dtype=object)
    )
    table = table.assign(png=table[key_of(run)].map(pictures))
    order = table.assign(
        none=table["png"].isna(), place=table["kind"].map(list(GALLERY_ORDER).index)
    )
    order = order.sort_values(
        ["none", "place", "sure_after", key_of(run)], ascending=[True, True, False, True]
    )
    return order.drop(columns=["none", "place"]).reset_index(drop=True)


def _answer(table: pd.DataFrame) -> str:
    """The share of each subgroup that changed."""
    said = [
        f"{words.quoted(row['group'])} {phrasing.percent(round(row['share'], 3))}"
        for row in _first(table)
    ]
    more = (
        f"; {len(table) - len(said)} more subgroups in the table" if len(table) > len(said) else ""
    )
    return f"Changed: {', '.join(said)}{more}."


def _first(table: pd.DataFrame) -> list[dict[str, Any]]:
    return table.head(4).to_dict("records")


def _counts(table: pd.DataFrame) -> str:
    """How many changed of how many, and which way."""
    said = [
        f"{words.quoted(row['group'])} {row['changed']} of {row['images']}, {row['wrong']} newly"
        f" wrong and {row['right']} newly right"
        for row in _first(table)
    ]
    return f"{phrasing.sentence('; '.join(said))}."


def _compared(table: pd.DataFrame) -> str:
    """The most changed subgroup against each other one, by the interval of the difference of both
    shares."""
    if len(table) < 2:
        return ""
    top, others = table.iloc[0], table.iloc[1:]
    ends = [
        difference(top["changed"], top["images"], row.changed, row.images)
        for row in others.itertuples()
    ]
    apart = others[[low > 0 for low, _ in ends]]
    name = words.quoted(top["group"])
    if len(others) == 1:
        span = (
            f"{phrasing.signed(100 * ends[0][0])} to {phrasing.signed(100 * ends[0][1])} percentage"
            " points"
        )
        if apart.empty:
            return (
                f" No subgroup clearly changes more often: the interval of the difference ({span})"
                " includes zero."
            )
        return f" {name} changes more often: the interval of the difference ({span}) is above zero."
    alone = f"each compared alone, without correction for {len(others)} comparisons."
    if apart.empty:
        what = f"the intervals of the differences between {name} and each other one include zero"
        return f" No subgroup clearly changes more often: {what}, {alone}"
    names = phrasing.listing(apart["group"].map(words.quoted))
    what = (
        "the interval of the difference is"
        if len(apart) == 1
        else "the intervals of the differences are"
    )
    return f" {name} changes more often than {names}: {what} above zero, {alone}"


_LOOK = {
    "wrong": ("#D55E00", "#F0803C", ""),
    "right": ("#0072B2", "#56B4E9", "/"),
    "other": ("#7a7a7a", "#b0b0b0", "x"),
}
"""Light colour, dark colour and hatching of each kind."""


def _figure(choice: Choice, table: pd.DataFrame, items: str) -> go.Figure:
    drawn, look = table.head(LONGEST).iloc[::-1].reset_index(drop=True), choice.theme
    names, y = (
        [wrapped(words.group_name(group)) for group in drawn["group"]],
        list(range(len(drawn))),
    )
    lines = max(name.count("<br>") for name in names)
    figure = blank(
        choice,
        110 + (42 + 16 * lines) * len(drawn),
        f"share of the subgroup's {items} that changed class",
    )
    for kind, name in KINDS.items():
        if not drawn[kind].any():
            continue
        light, dark, hatch = _LOOK[kind]
        pattern = {"shape": hatch, "solidity": 0.25}
        said = f"{name}: %{{customdata[0]}} of %{{customdata[1]}} (%{{x:.1%}})<extra></extra>"
        bar = {"orientation": "h", "width": 0.56, "name": name, "hovertemplate": said}
        bar |= {"marker": {"color": dark if choice.dark else light, "pattern": pattern}}
        figure.add_bar(
            x=drawn[kind] / drawn["images"],
            y=y,
            customdata=drawn[[kind, "images"]].to_numpy(),
            **bar,
        )
    error = bars(drawn["share"], drawn["low"], drawn["high"], look.ink, 1.4, 3)
    silent(
        figure,
        drawn["share"],
        y,
        mode="markers",
        marker={"size": 1, "color": look.ink},
        error_x=error,
    )
    small = f"<span style='font-size:11px;color:{look.soft}'>"
    labels = [
        f"{name}<br>{small}n = {images}</span>"
        for name, images in zip(names, drawn["images"], strict=True)
    ]
    row_names(figure, labels, upwards=True)
    figure.update_xaxes(tickformat=".0%", showgrid=True, rangemode="tozero", nticks=6)
    figure.update_layout(barmode="stack", legend={"traceorder": "normal"})
    return figure
