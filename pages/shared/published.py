"""Where published head scores come from: uploaded files, or a path on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import streamlit as st

from engine.audit.tracks import tracks
from engine.core.errors import refusal
from engine.core.types import AXES
from engine.report.charts.panel import Choice, Panel
from engine.report.tracks import Published
from pages.shared import cache, panels, roots, state
from pages.shared.controls import is_dark, segmented

SOURCES = {"run": "This audit", "published": "Published scores"}
KINDS = {"pearson": "Pearson", "spearman": "Spearman"}


def _offer() -> Published | None:
    """What is published for a kind of audit that is here; None where there is nothing."""
    parts = (track.given("published") for track in tracks().values())
    return next(filter(None, parts), None)


def source() -> str:
    """The switch between the chosen audit and published scores: "run" or "published"."""
    return segmented("Scores from", SOURCES, state.SOURCE) if _offer() else "run"


def asked() -> bool:
    """Whether published scores were chosen, or are named by the link, before the switch is
    drawn."""
    chosen = state.value_of(state.SOURCE)
    if chosen is None:
        chosen = state.asked(state.SOURCE, list(SOURCES), SOURCES.__getitem__) or state.kept(
            state.SOURCE
        )
    return _offer() is not None and chosen == "published"


def correlation() -> str:
    """Which correlation of heads between axes is shown."""
    return segmented("Correlation", KINDS, state.KIND)


def show(make: Callable[[Published, Any, Choice], Iterable[Panel]]) -> None:
    """What is uploaded or what the path leads to, and the panels that `make` finds in it."""
    offer = _offer()
    if offer is None:
        return
    st.markdown(offer.about)
    left, right = st.columns(2, gap="large")
    with left:
        given = st.file_uploader(
            "Files", type=["csv", "json"], accept_multiple_files=True, key=state.PUBLISHED_FILES
        )
    with right:
        label, key = "Or a folder or file on this machine", state.PUBLISHED_FOLDER
        folder = st.text_input(label, key=key, persist_state="session")
    paths = _paths(given or [], folder.strip())
    if paths and (scores := cache.load_published(offer.read, paths)):
        for panel in make(offer, scores, Choice("fasp", AXES[0], 0.2, dark=is_dark())):
            panels.draw(panel)


def _paths(given: list, folder: str) -> list[Path]:
    """Uploaded files, else what the path leads to. A path that leads nowhere raises
    RequestError."""
    if given:
        return [roots.kept(file) for file in given]
    if not folder:
        return []
    roots.refuse_outside({"path": folder})
    path = Path(folder).expanduser()
    found = sorted(path.rglob("*.csv")) if path.is_dir() else [path] if path.is_file() else []
    found = [file for file in found if not roots.outside(str(file))]
    if not found:
        what = f"{folder!r} is no file and holds no CSV files."
        raise refusal("path", what, "Name a file, or a folder of CSV files.")
    return found
