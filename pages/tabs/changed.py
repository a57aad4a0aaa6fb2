"""Which images or texts changed class in one trial or seed of a classifier: newly wrong beside
newly right, with pictures where they were kept, and where each model looks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import streamlit as st

from engine.core.errors import PruneAuditError
from engine.report import phrasing
from engine.report.bundle import holding
from engine.report.charts import classifier_changed, flips, lookup
from engine.report.charts.panel import Choice
from engine.report.charts.where_it_looks import ABOUT, WAYS, overlays
from engine.report.tracks import track_of
from engine.resident.client import ask
from pages.shared import panels, safe, state
from pages.shared.anecdote import WITHHELD, question_of
from pages.shared.cache import KeptRun, made
from pages.shared.controls import (
    beside,
    capital,
    group_label,
    is_dark,
    page_of,
    search,
    segmented,
    select,
    select_group,
)
from pages.shared.navigation import Tab
from pages.shared.safe import plain

EVERY = ""
BOTH = "both"
SIDES = ("wrong", "right")
KINDS = {BOTH: "Both sides", "wrong": "Newly wrong", "right": "Newly right"}
OTHER = {"other": "Wrong either way"}
SHOWN = (flips.flips, classifier_changed.gallery)
Row = dict[str, Any]
Maps = tuple[tuple[str, bytes], ...]
"""The dense and the pruned model's map over a picture: which, and a PNG."""
NOT = "off"
LEGEND = (
    "Wine red speaks for the dense model's answer, blue against it. The dense model is left, the "
    "pruned one right. These are single pictures of one trained model: they hint at what to look "
    "for, and prove nothing about a subgroup."
)


@dataclass(frozen=True)
class Picked:
    """What of a model's changed items the reader looks at: all rows of each side, those on the
    page, and whether each names its subgroup."""

    variant: str
    sides: dict[str, pd.DataFrame]
    shown: dict[str, pd.DataFrame]
    named: bool


def images(run: KeptRun, choice: Choice) -> None:
    picked = _picked(run, choice, per_page=12)
    if picked is None:
        return
    rows = [row for part in picked.shown.values() for row in part.to_dict("records")]
    maps = _looks(run, picked.variant, [row["image_id"] for row in rows if row["png"] is not None])

    def draw(rows: Sequence[Row]) -> None:
        safe.gallery(
            [
                safe.Shot(
                    row["png"], *_outcome(run, row, picked.named), maps.get(row["image_id"], ())
                )
                for row in rows
            ]
        )

    _sides(run, picked, draw)


def texts(run: KeptRun, choice: Choice) -> None:
    """Texts of a text classifier, hidden until asked for."""
    picked = _picked(run, choice, per_page=10)
    if picked is None:
        return
    about = "They come from the data, and can be offensive, hateful or untrue."
    if here := bool(lookup.frame(run, "texts")["text"].any()):
        shown = st.toggle("Show the texts", key=state.SHOW_ALL, help=about)
    else:
        st.caption(WITHHELD)

    def draw(rows: Sequence[Row]) -> None:
        for row in rows:
            title, lines, _ = _outcome(run, row, picked.named)
            both = " \u2016 ".join(str(row[name]) for name in ("text", "text_b") if row.get(name))
            with st.container(border=True):
                if here:
                    safe.generated(both, title, "; ".join(lines), shown)
                else:
                    st.markdown(plain("; ".join([title, *lines])))

    _sides(run, picked, draw)


def one_repeat(run: KeptRun, choice: Choice, what: str) -> int | None:
    """The trial or seed that the reader chose: `what` is about one model, not a mean. None where
    nothing is cut."""
    known = [int(seed) for seed in made(run, lookup.trials_of, choice)["seed"]]
    if not known:
        return None
    name = track_of(run).nouns.repeat
    named = {number: f"{capital(name)} {number}" for number in known}
    about = f"{what} below are those of one {name}: a mean over {name}s would be of no model."
    with st.container(width=320):
        return select(capital(name), named, state.TRIAL, help=about)


def _picked(run: KeptRun, choice: Choice, per_page: int) -> Picked | None:
    """Counts per subgroup of one trial or seed, and which of its items the reader chose; None where
    there are none."""
    track = track_of(run)
    repeat = one_repeat(run, choice, capital(track.nouns.items))
    if repeat is None:
        st.info(
            f"Nothing is cut here, so no {track.nouns.item} changed class. Choose another method or"
            " level."
        )
        return None
    panels.draw(made(run, flips.flips, choice, trial=repeat))
    panels.look_ahead(run, SHOWN, choice, dict.fromkeys(SHOWN, {"trial": repeat}))
    if not classifier_changed.keeps_answers(run):
        return None
    every = made(run, classifier_changed.gallery, choice, trial=repeat)
    safe.header(f"Which {track.nouns.items} are these?")
    if every.empty:
        st.markdown(f"No test {track.nouns.item} changed class in this {track.nouns.repeat}.")
        return None
    group, sides, page = _filters(every, per_page)
    trials = made(run, lookup.trials_of, choice)
    variant = str(trials.loc[trials["seed"] == repeat, "variant"].iat[0])
    shown = {kind: part.iloc[page] for kind, part in sides.items()}
    return Picked(variant, sides, shown, group == EVERY)


def _filters(every: pd.DataFrame, per_page: int) -> tuple[str, dict[str, pd.DataFrame], slice]:
    """The subgroup, the rows of each side that the reader chose, and which of them are on the
    page."""
    if "text" in every and every["text"].any():
        every = holding(every, ("text", "text_b"), search("Search in the texts", state.SEARCH))
    left, middle, right = beside(4, 5, 3)
    with left:
        group = select_group(sorted(set(every["group"]) - {""}), state.CHANGED_GROUP)
    with middle:
        kinds = {**KINDS, **(OTHER if (every["kind"] == "other").any() else {})}
        kind = segmented("What happened", kinds, state.CHANGED_KIND)
    mine = every[(every["group"] == group) | (group == EVERY)]
    sides = {one: mine[mine["kind"] == one] for one in (SIDES if kind == BOTH else (kind,))}
    with right:
        longest = max(map(len, sides.values()))
        page = page_of(longest, per_page // len(sides), state.GALLERY_PAGE)
    return group, sides, page


def _sides(run: KeptRun, picked: Picked, draw: Callable[[Sequence[Row]], None]) -> None:
    """Each side in a column of its own: how many, in which order, and the examples."""
    track = track_of(run)
    st.caption(f"Single {track.nouns.items} prove nothing: read them with the intervals above.")
    columns = st.columns(len(picked.sides), gap="large")
    for column, (kind, every) in zip(columns, picked.sides.items(), strict=True):
        with column:
            count = phrasing.count(len(every), track.nouns.item)
            safe.header(f"{(KINDS | OTHER)[kind]}: {count}")
            if len(picked.shown[kind]):
                safe.caption(_order(every, picked.shown[kind], track.nouns.items))
                draw(picked.shown[kind].to_dict("records"))


def _order(rows: pd.DataFrame, shown: pd.DataFrame, items: str) -> str:
    """How many are shown and in which order."""
    kept, here = int(rows["png"].notna().sum()), int(shown["png"].notna().sum())
    first = "those with a picture first, then " if 0 < kept < len(rows) else ""
    text = f"{len(shown)} shown, {first}where the cut model is surest first."
    if here == len(shown) or items != "images":
        return text
    return f"{text} Pictures were kept of {here} of them."


def _outcome(run: KeptRun, row: Row, named: bool) -> tuple[str, tuple[str, ...], str]:
    """A row in words: its title, lines (unescaped: classes and subgroups have names of users), and
    tone. What is true is said where neither answer was."""
    classes = run.data["classes"]
    truth, before, after = (str(classes[int(row[name])]) for name in ("label", "before", "after"))
    ends = [phrasing.percent(round(row[name], 2)) for name in ("sure_before", "sure_after")]
    sure = " \u2192 ".join(ends)
    marks = {"wrong": ("\u2717 ", "bad"), "right": ("\u2713 ", "good")}
    sign, tone = marks.get(row["kind"], ("", ""))
    lines = [f"{sure} sure"]
    if row["kind"] not in SIDES:
        lines.insert(0, f"truth: {truth}")
    if named and row["group"]:
        lines.append(group_label(row["group"]))
    return f"{sign}{before} \u2192 {after}", tuple(lines), tone


def _looks(run: KeptRun, variant: str, images: Sequence[str]) -> dict[str, Maps]:
    """Where each model looks on these pictures, by id, where the reader asks for it; says why where
    there is nothing to show."""
    ways = {NOT: "Not shown", **dict(reversed(WAYS.items()))}  # the quick one first
    way = segmented("Where each model looks", ways, state.GALLERY_LOOK)
    if way == NOT or not images:
        return {}
    found: dict[str, Maps] = {}
    try:
        with st.spinner(f"Both models look at {phrasing.count(len(images), 'picture')} …"):
            for image in images:
                found[image] = made(run, _looked, variant, image, way, is_dark())
    except PruneAuditError as error:
        st.info(plain(f"Where they look cannot be shown. {error}"))
        return {}
    safe.caption(f"{LEGEND} {ABOUT[way]}")
    return found


def _looked(run: KeptRun, variant: str, image: str, way: str, dark: bool) -> Maps:
    given = {"run": run.id, "variant": variant, "image": image, "way": way}
    return overlays(ask(question_of(run), given), dark)


IMAGES = Tab("Images", images)
TEXTS = Tab("Texts", texts, classifier_changed.keeps_answers)
