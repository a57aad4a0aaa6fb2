"""Tabs inside a page: each a file in pages/tabs/PAGE, linkable (`?tab=layers`), drawn only when
open.

Which tabs an audit's page has is declared by its track (`Track.tabs`); a file there holds `TAB`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass

import streamlit as st

from engine.report.charts.panel import Choice
from engine.report.tracks import track_of
from engine.store.runs import Run
from pages.shared import state


def always(run: Run) -> bool:
    return True


@dataclass(frozen=True)
class Tab:
    """One tab: its title, what draws it, and whether an audit has anything for it (cheap: asked on
    every page)."""

    title: str
    draw: Callable[..., None]
    """(run, choice) -> None"""
    has: Callable[[Run], bool] = always


def offered(page: str, run: Run) -> list[Tab]:
    """The tabs of a page that have something to show of this run, in the order in which its track
    names them."""
    found = [
        importlib.import_module(f"pages.tabs.{page}.{name}").TAB
        for name in track_of(run).tabs.get(page, ())
    ]
    return [tab for tab in found if tab.has(run)]


def draw(page: str, run: Run, choice: Choice) -> None:
    """The strip of tabs, and what the open one shows. A single tab needs no strip."""
    here = offered(page, run)
    if not here:
        st.info("This audit kept nothing that this page could show.")
    elif len(here) == 1:
        here[0].draw(run, choice)
    else:
        _strip(page, here, run, choice)


def _strip(page: str, here: list[Tab], run: Run, choice: Choice) -> None:
    key, titles = state.key_of(state.TAB, page), [tab.title for tab in here]
    state.restore_tab(key, titles)
    for box, tab in zip(st.tabs(titles, key=key, on_change="rerun"), here, strict=True):
        if box.open:
            state.keep_tab(key, tab.title)
            with box:
                tab.draw(run, choice)
