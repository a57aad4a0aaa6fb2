"""Correlations: do the same heads matter for every axis? For an audit, or for published scores; needs no model."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from engine import words
from engine.errors import Fault, RequestError
from engine.export.panels import correlations
from engine.export.panels.base import Choice
from engine.types import AXES
from pages.shared import cache, panels, state, uploads
from pages.shared.cache import made
from pages.shared.controls import capital, choose, is_dark, segmented
from pages.shared.frame import begin_app, boundary, heading, need_run

KINDS = ("pearson", "spearman")
SOURCES = ("run", "published")
NAMES = {"run": "This audit", "published": "Published scores (CSV)"}


def page() -> None:
    heading(words.PAGES["correlations"])
    with st.container(horizontal=True, gap="large"):
        source = segmented("Scores from", SOURCES, state.SOURCE, NAMES.get)
        kind = segmented("Correlation", KINDS, state.KIND, capital)
    if source == "run":
        _of_run(kind)
    else:
        _of_files(kind)


def _of_run(kind: str) -> None:
    run = need_run()
    choice = choose(run)
    left, right = st.columns(2, gap="large")
    with left:
        panels.draw(made(run, correlations.axis_correlation, choice, kind=kind))
    with right:
        panels.draw(made(run, correlations.method_agreement, choice))
    panels.draw(made(run, correlations.top_heads, choice))


def _of_files(kind: str) -> None:
    st.markdown("Head scores as the FASP authors published them: CSV files with one row per head, axis and seed.")
    left, right = st.columns(2, gap="large")
    with left:
        given = st.file_uploader("Files", type="csv", accept_multiple_files=True, key=state.PUBLISHED_FILES)
    with right:
        folder = st.text_input("Or a folder or file on this machine", key=state.PUBLISHED_FOLDER)
    paths = _paths(given or [], folder.strip())
    if not paths:
        return
    scores = cache.load_published(paths)
    choice = Choice(method="fasp", axis=AXES[0], sparsity=0.2, dark=is_dark())
    for panel in correlations.published(scores, choice, kind=kind):
        panels.draw(panel)


def _paths(given: list, folder: str) -> list[Path]:
    """Uploaded files, else what the path leads to. A path that leads nowhere raises RequestError."""
    if given:
        return [uploads.kept(file) for file in given]
    if not folder:
        return []
    path = Path(folder).expanduser()
    found = sorted(path.rglob("*.csv")) if path.is_dir() else [path] if path.is_file() else []
    if not found:
        raise RequestError(Fault("path", f"{folder!r} is no CSV file and holds none.", "Name a file or a folder."))
    return found


begin_app()
with boundary():
    page()
