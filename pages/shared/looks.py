"""Where each model looks on the pictures of a gallery: asked of the engine for those that are
shown, and kept."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from engine.core.errors import PruneAuditError
from engine.report import phrasing
from engine.report.charts.look_overlay import overlays
from engine.report.charts.where_it_looks import ABOUT, WAYS
from engine.resident.client import ask
from pages.shared import state
from pages.shared.anecdote import question_of
from pages.shared.cache import KeptRun, made
from pages.shared.controls import is_dark, segmented
from pages.shared.safe import plain

Maps = tuple[tuple[str, bytes], ...]
"""The dense and the pruned model's map over a picture: which, and a PNG."""
NOT = "off"
LEGEND = (
    "Orange speaks for the dense model's answer, blue against it; dense model left, pruned one"
    " right. These are single pictures of one trained model: they can suggest what to look for, and"
    " show nothing about a subgroup."
)


def looks(run: KeptRun, variant: str, images: Sequence[str]) -> dict[str, Maps]:
    """The maps of these pictures by id, where the reader asks for them; says why where there are
    none."""
    ways = {NOT: "Not shown", **dict(reversed(WAYS.items()))}  # the quick one first
    way = segmented("Where each model looks", list(ways), state.GALLERY_LOOK, ways.__getitem__)
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
    st.caption(plain(f"{LEGEND} {ABOUT[way]}"))
    return found


def _looked(run: KeptRun, variant: str, image: str, way: str, dark: bool) -> Maps:
    return overlays(
        ask(question_of(run), {"run": run.id, "variant": variant, "image": image, "way": way}), dark
    )
