"""Picture: one of the data or of one's own, answered by the dense and a pruned classifier, and
where each looks."""

from __future__ import annotations

import base64
from functools import partial
from typing import Any

import streamlit as st

from engine.core import words
from engine.report.charts import lookup
from engine.report.charts.panel import Choice
from engine.report.charts.where_it_looks import ABOUT, WAYS, class_chances, where_it_looks
from pages.shared import panels, safe, state
from pages.shared.anecdote import ask_both, draw_anecdote
from pages.shared.cache import KeptRun, made
from pages.shared.controls import capital, segmented, select
from pages.shared.frame import draw_page, link

ANECDOTE = "one picture. The summary shows what holds on many, with intervals."


def _question(run: KeptRun, choice: Choice) -> dict[str, Any]:
    """The form: what is asked."""
    pictures = made(run, pictures_of)
    given: dict[str, Any] = {"variant": lookup.variant_of(run, choice)["variant"]}
    left, right = st.columns([2, 3], gap="medium")
    with left:
        if pictures:
            image = select("A picture that the audit kept", pictures, state.KEPT_PICTURE)
            table = run.table("thumbs").set_index("image_id")
            safe.gallery([safe.Shot(table.loc[image, "png"], "", ())])
            given["image"] = image
        else:
            st.caption("This audit kept no pictures.")
    with right:
        file = st.file_uploader(
            "Or one of your own",
            ["png", "jpg", "jpeg"],
            key=state.OWN_PICTURE,
            max_upload_size=5,
            help="It stays on this machine and is not kept.",
        )
        if file:
            given.pop("image", None)
            given["file"] = base64.b64encode(file.getvalue()).decode()
        given["way"] = segmented("Where each model looks, by", WAYS, state.LOOK)
        st.caption(ABOUT[given["way"]])
    return given


def pictures_of(run: KeptRun) -> dict[str, str]:
    """Kept pictures of test images by id, named by class and groups."""
    if not (run.has("thumbs") and run.has("images")):
        return {}
    table = run.table("thumbs")[["image_id"]].merge(run.table("images"), on="image_id")
    classes, groups = run.model["classes"], run.data["groups"]
    named = {}
    for place, row in enumerate(table.to_dict("records"), 1):
        parts = [classes[int(row["label"])], *(str(row[name]) for name in groups if name in row)]
        about = ", ".join(map(words.group_name, parts))
        named[row["image_id"]] = f"{place}: {safe.visible(about)}"
    return named


def _answer(run: KeptRun, choice: Choice, answer: dict[str, Any]) -> None:
    notes = f"Pruned: {answer['cut']}, {answer['gone']} gone.", *answer["notes"]
    safe.caption(*map(capital, notes))
    panels.draw(class_chances(answer, choice))
    panels.draw(where_it_looks(answer, choice))
    link("summary", "Read the statistics")
    link("examples", "See which images changed class")


draw_page(partial(draw_anecdote, "picture", ANECDOTE, _question, ask_both, _answer))
