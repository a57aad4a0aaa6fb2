"""Which images or texts changed class in one trial or seed of a classifier: newly wrong beside
newly right."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from engine.core import words
from engine.report import phrasing
from engine.report.charts import classifier_changed, classifier_lookup
from engine.report.charts.panel import Choice
from engine.report.tracks import track_of
from pages.shared import panels, state
from pages.shared.cache import KeptRun, made
from pages.shared.controls import capital, segmented, select
from pages.shared.safe import plain

EVERY = ""
BOTH = "both"
SIDES = ("wrong", "right")
KINDS = {BOTH: "Both sides", "wrong": "Newly wrong", "right": "Newly right"}
OTHER = {"other": "Wrong either way"}
SHOWN = (classifier_changed.changed_by_group, classifier_changed.gallery)
Row = dict[str, Any]
Draw = Callable[[Sequence[Row]], None]
"""Draws the examples of one side."""
Prepare = Callable[[str, Sequence[Row], bool], Draw]
"""Of the variant, all rows that will be drawn, and whether each names its subgroup; draws what is
chosen for all."""


def one_repeat(run: KeptRun, choice: Choice, what: str) -> int | None:
    """The trial or seed that the reader chose: `what` is about one model, not a mean. None where
    nothing is cut."""
    known = [int(seed) for seed in made(run, classifier_lookup.trials_of, choice)["seed"]]
    if not known:
        return None
    name = track_of(run).repeat
    about = f"{what} below are those of one {name}: a mean over {name}s would be of no model."
    with st.container(width=320):
        return select(
            capital(name),
            known,
            state.TRIAL,
            lambda number: f"{capital(name)} {number}",
            help=about,
        )


def changed_items(run: KeptRun, choice: Choice, per_page: int, prepare: Prepare) -> None:
    """Counts per subgroup of one trial or seed, then the images or texts: before, after, truth."""
    items = track_of(run).items
    repeat = one_repeat(run, choice, capital(items))
    if repeat is None:
        st.info(
            f"Nothing is cut here, so no {track_of(run).item} changed class. Choose another method"
            " or level."
        )
        return
    panels.draw(made(run, classifier_changed.changed_by_group, choice, trial=repeat))
    if classifier_changed.keeps_answers(run):
        _one_by_one(run, choice, repeat, per_page, prepare)
    panels.look_ahead(run, SHOWN, choice, dict.fromkeys(SHOWN, {"trial": repeat}))


def _one_by_one(run: KeptRun, choice: Choice, repeat: int, per_page: int, prepare: Prepare) -> None:
    every, track = made(run, classifier_changed.gallery, choice, trial=repeat), track_of(run)
    st.header(f"Which {track.items} are these?", anchor=False)
    if every.empty:
        st.markdown(f"No test {track.item} changed class in this {track.repeat}.")
        return
    group, sides, pages = _filters(every, per_page)
    shown = {kind: part.iloc[pages] for kind, part in sides.items()}
    rows = {kind: part.to_dict("records") for kind, part in shown.items()}
    draw = prepare(
        _variant(run, choice, repeat),
        [row for part in rows.values() for row in part],
        group == EVERY,
    )
    st.caption(f"Single {track.items} prove nothing: read them beside the intervals above.")
    for column, kind in zip(st.columns(len(sides), gap="large"), sides, strict=True):
        with column:
            st.header(
                f"{(KINDS | OTHER)[kind]}: {phrasing.count(len(sides[kind]), track.item)}",
                anchor=False,
            )
            if rows[kind]:
                st.caption(plain(_order(sides[kind], shown[kind], track.items)))
                draw(rows[kind])


def _filters(every: pd.DataFrame, per_page: int) -> tuple[str, dict[str, pd.DataFrame], slice]:
    """The subgroup, the rows of each side that the reader chose, and which of them are on the
    page."""
    left, middle, right = st.columns([4, 5, 3], gap="medium", vertical_alignment="bottom")
    with left:
        group = select(
            "Subgroup",
            [EVERY, *sorted(set(every["group"]) - {""})],
            state.CHANGED_GROUP,
            group_label,
        )
    with middle:
        kinds = {**KINDS, **(OTHER if (every["kind"] == "other").any() else {})}
        kind = segmented("What happened", list(kinds), state.CHANGED_KIND, kinds.__getitem__)
    mine = every[(every["group"] == group) | (group == EVERY)]
    sides = {one: mine[mine["kind"] == one] for one in (SIDES if kind == BOTH else (kind,))}
    at_once = per_page // len(sides)
    last = max(1, *(math.ceil(len(part) / at_once) for part in sides.values()))
    with right:
        number = select(f"Page of {last}", list(range(1, last + 1)), state.GALLERY_PAGE)
    return group, sides, slice((number - 1) * at_once, number * at_once)


def _variant(run: KeptRun, choice: Choice, repeat: int) -> str:
    """The one model that the gallery is about."""
    trials = made(run, classifier_lookup.trials_of, choice)
    return str(trials.loc[trials["seed"] == repeat, "variant"].iat[0])


def group_label(group: str) -> str:
    return "All subgroups" if group == EVERY else capital(words.group_name(group))


def _order(rows: pd.DataFrame, shown: pd.DataFrame, items: str) -> str:
    """How many are shown and in which order."""
    kept = int(rows["png"].notna().sum())
    first = "those with a picture first, then " if 0 < kept < len(rows) else ""
    text = f"{len(shown)} shown, {first}where the cut model is surest first."
    here = int(shown["png"].notna().sum())
    return (
        text
        if here == len(shown) or items != "images"
        else f"{text} Pictures were kept of {here} of them."
    )


def outcome(run: KeptRun, row: Row, named: bool) -> tuple[str, tuple[str, ...], str]:
    """A row in words: its title, lines (unescaped: classes and subgroups have names of users), and
    tone. What is true is said where neither answer was."""
    classes = run.meta["data"]["classes"]
    truth, before, after = (str(classes[int(row[name])]) for name in ("label", "before", "after"))
    ends = [phrasing.percent(round(row[name], 2)) for name in ("sure_before", "sure_after")]
    sign, tone = {"wrong": ("\u2717 ", "bad"), "right": ("\u2713 ", "good")}.get(
        row["kind"], ("", "")
    )
    group = (group_label(row["group"]),) if named and row["group"] else ()
    true = (f"truth: {truth}",) if row["kind"] not in SIDES else ()
    sure = " \u2192 ".join(ends)
    return f"{sign}{before} \u2192 {after}", (*true, f"{sure} sure", *group), tone
