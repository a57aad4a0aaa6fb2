"""The images behind the counts: which changed class in one trial or seed of an image classifier, with pictures."""

from __future__ import annotations

import math

import pandas as pd
import streamlit as st

from engine.core import words
from engine.report import phrasing
from engine.report.charts import classifier_changed, classifier_lookup
from engine.report.charts.panel import Choice
from engine.report.tracks import track_of
from pages.shared import panels, safe, state
from pages.shared.cache import KeptRun, made
from pages.shared.controls import capital, segmented, select
from pages.shared.looks import Maps, looks
from pages.shared.safe import plain

EVERY = "(all)"
KINDS = {"": "All changes", "wrong": "Newly wrong", "right": "Newly right"}
PER_PAGE = 48
"""Pictures at a time."""


def one_repeat(run: KeptRun, choice: Choice, what: str) -> int | None:
    """The trial or seed that the reader chose: `what` is about one model, not a mean. None where nothing is cut."""
    known = [int(seed) for seed in made(run, classifier_lookup.trials_of, choice)["seed"]]
    if not known:
        return None
    name = track_of(run).repeat
    about = f"{what} below are those of one {name}: a mean over {name}s would be of no model."
    with st.container(width=320):
        return select(capital(name), known, state.TRIAL, lambda number: f"{capital(name)} {number}", help=about)


def changed_images(run: KeptRun, choice: Choice, repeat: int) -> None:
    """Counts per subgroup, then the images: before, after, truth."""
    panels.draw(made(run, classifier_changed.changed_by_group, choice, trial=repeat))
    if not (run.has("predictions") and run.has("images")):
        return
    every = made(run, classifier_changed.gallery, choice, trial=repeat)
    st.header("Which images are these?", anchor=False)
    if every.empty:
        st.markdown(f"No test image changed class in this {track_of(run).repeat}.")
        return
    left, middle, right = st.columns([4, 5, 3], gap="medium", vertical_alignment="bottom")
    with left:
        groups = [EVERY, *sorted(set(every["group"]) - {""})]
        group = select("Subgroup", groups, state.CHANGED_GROUP, _group_label)
    with middle:
        kinds = {**KINDS, **({"other": "Wrong either way"} if (every["kind"] == "other").any() else {})}
        kind = segmented("What happened", list(kinds), state.CHANGED_KIND, kinds.get)
    rows = every[((every["group"] == group) | (group == EVERY)) & ((every["kind"] == kind) | (kind == ""))]
    last = max(1, math.ceil(len(rows) / PER_PAGE))
    with right:
        number = select(f"Page of {last}", list(range(1, last + 1)), state.GALLERY_PAGE)
    shown = rows.iloc[(number - 1) * PER_PAGE : number * PER_PAGE]
    st.caption(plain(_counted(rows, shown)))
    rows = shown.to_dict("records")
    maps = looks(run, _variant(run, choice, repeat), [row["image_id"] for row in rows if row["png"] is not None])
    safe.gallery([_shot(run, row, group == EVERY, maps.get(row["image_id"], ())) for row in rows])


def _variant(run: KeptRun, choice: Choice, repeat: int) -> str:
    """The one model that the gallery is about."""
    trials = made(run, classifier_lookup.trials_of, choice)
    return str(trials.loc[trials["seed"] == repeat, "variant"].iat[0])


def _group_label(group: str) -> str:
    return "All subgroups" if group == EVERY else capital(words.group_name(group))


def _counted(rows: pd.DataFrame, shown: pd.DataFrame) -> str:
    some = f"{len(shown)} of {len(rows)}" if len(shown) < len(rows) else f"{len(rows)}"
    kept = int(shown["png"].notna().sum())
    first = "those with a picture first, then " if 0 < rows["png"].notna().sum() < len(rows) else ""
    text = f"{some} {'image' if len(rows) == 1 else 'images'} that changed class, "
    text += f"{first}newly wrong before newly right."
    if kept < len(shown):
        text += f" Pictures were kept of {kept} of them."
    return f"{text} Single images prove nothing: read them beside the intervals above."


def _shot(run: KeptRun, row: dict, named: bool, maps: Maps) -> safe.Shot:
    classes = run.meta["data"]["classes"]
    truth, before, after = (str(classes[int(row[name])]) for name in ("label", "before", "after"))
    sure = (
        f"{phrasing.percent(round(row['sure_before'], 2))} \u2192 {phrasing.percent(round(row['sure_after'], 2))} sure"
    )
    title = {"wrong": "\u2717 newly wrong", "right": "\u2713 newly right"}.get(row["kind"], "wrong either way")
    tone = {"wrong": "bad", "right": "good"}.get(row["kind"], "")
    group = (_group_label(row["group"]),) if named and row["group"] else ()
    return safe.Shot(row["png"], title, (f"{before} \u2192 {after}", f"truth: {truth}", sure, *group), tone, maps)
