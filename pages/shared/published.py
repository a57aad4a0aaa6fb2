"""Where published head scores come from: uploaded files, or a path on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import streamlit as st

from engine.core.errors import Fault, RequestError
from engine.report.contract import Published
from engine.report.tracks import tracks
from pages.shared import cache, roots, state
from pages.shared.controls import capital, segmented

SOURCES = ("run", "published")
KINDS = ("pearson", "spearman")
NAMES = {"run": "This audit", "published": "Published scores"}


def offer() -> Published | None:
    """What is published for a kind of audit that is here; None where there is nothing."""
    return next((track.published for track in tracks().values() if track.published), None)


def source() -> str:
    """The switch between the chosen audit and published scores: "run" or "published"."""
    if offer() is None:
        return SOURCES[0]
    return segmented("Scores from", SOURCES, state.SOURCE, NAMES.__getitem__)


def asked() -> bool:
    """Whether published scores were chosen, or are named by the link, before the switch is
    drawn."""
    chosen = state.value_of(state.SOURCE, state.kept(state.SOURCE))
    return offer() is not None and SOURCES[1] in (chosen, *_linked())


def _linked() -> tuple[str, ...]:
    """What a link names that has not been drawn yet, as an option of the switch."""
    linked = state.in_address(state.SOURCE) if state.value_of(state.SOURCE) is None else None
    return tuple(option for option, name in NAMES.items() if name == linked)


def correlation() -> str:
    """Which correlation of heads between axes is shown."""
    return segmented("Correlation", KINDS, state.KIND, capital)


def scores() -> Any:
    """What was uploaded or what the path leads to, read; empty while nothing is named."""
    here = offer()
    if here is None:
        return ()
    st.markdown(here.about)
    left, right = st.columns(2, gap="large")
    with left:
        given = st.file_uploader(
            "Files", type=["csv", "json"], accept_multiple_files=True, key=state.PUBLISHED_FILES
        )
    with right:
        state.restore_text(state.PUBLISHED_FOLDER)
        folder = st.text_input("Or a folder or file on this machine", key=state.PUBLISHED_FOLDER)
        state.keep(state.PUBLISHED_FOLDER, folder)
    paths = _paths(given or [], folder.strip())
    return cache.load_published(here.read, paths) if paths else ()


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
        raise RequestError(Fault("path", what, "Name a file, or a folder of CSV files."))
    return found
