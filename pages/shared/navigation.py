"""The app's navigation: sections by question, the pages of each, and which of them an audit has
something for."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import streamlit as st

from engine.report.charts.panel import Choice
from engine.report.tracks import track_of, tracks
from engine.store.runs import Run
from pages.shared import state


@dataclass(frozen=True)
class Entry:
    """A page in the navigation: what it is called there, and the name of a Material icon."""

    title: str
    icon: str


SECTIONS: Mapping[str, Mapping[str, Entry]] = {
    "Result": {
        "summary": Entry("Summary", "dashboard"),
        "trade_off": Entry("Trade-off", "scatter_plot"),
        "examples": Entry("Examples", "format_quote"),
    },
    "Why": {
        "heads": Entry("Heads", "grid_on"),
        "filters": Entry("Filters", "layers"),
        "tickets": Entry("Tickets", "confirmation_number"),
        "training": Entry("Training", "balance"),
    },
    "Ask": {
        "bench": Entry("Bench", "toggle_on"),
        "playground": Entry("Playground", "edit_note"),
        "sentence": Entry("Sentence", "short_text"),
        "picture": Entry("Picture", "image_search"),
    },
    "Trust": {
        "reliability": Entry("Reliability", "repeat"),
        "measured": Entry("How it was measured", "straighten"),
    },
    "Share": {
        "present": Entry("Present", "slideshow"),
        "export": Entry("Export", "download"),
    },
    "Workspace": {
        "audits": Entry("Audits", "inventory_2"),
        "new_audit": Entry("New audit", "add_circle"),
        "jobs": Entry("Jobs", "pending_actions"),
        "models": Entry("Models and data", "database"),
        "compare": Entry("Compare", "compare_arrows"),
    },
}
"""A page that no section names stands in the last one."""
ENTRIES = {page: entry for entries in SECTIONS.values() for page, entry in entries.items()}
FIRST = "summary"
"""The page that has the address "/"."""
WORKSPACE = "Workspace"
WITHOUT_AN_AUDIT = ("summary",)
"""Shown where no audit is chosen, beside the workspace."""
HIDDEN = ("compare",)
"""Opened from other pages, never listed."""


def entry_of(page: str, run: Run | None = None) -> Entry:
    """How a page is listed, in the words of the chosen run's kind; for one that nobody listed, its
    file's name."""
    entry = ENTRIES.get(page) or Entry(page.replace("_", " ").capitalize(), "article")
    if run is None:
        return entry
    return replace(entry, title=track_of(run).screens.titles.get(page, entry.title))


def sorted_in(found: Sequence[str]) -> dict[str, list[str]]:
    """The pages that are here, by section, in the order of lists."""
    sections = {
        section: [name for name in entries if name in found]
        for section, entries in SECTIONS.items()
    }
    sections[WORKSPACE] += [name for name in found if name not in ENTRIES]
    return {section: names for section, names in sections.items() if names}


def shown(page: str, run: Run | None) -> bool:
    """Whether the navigation lists a page: everybody's pages, and of the others those that this
    audit has."""
    if page in SECTIONS[WORKSPACE] or page in WITHOUT_AN_AUDIT:
        return page not in HIDDEN
    if run is None:
        return False
    owned = {name for track in tracks().values() for name in track.screens.pages}
    if page in owned and page not in track_of(run).screens.pages:
        return False
    return page not in track_of(run).screens.tabs or bool(offered(page, run))


@dataclass(frozen=True)
class Tab:
    """One tab: its title, what draws it, and whether an audit has anything for it (cheap: asked on
    every page)."""

    title: str
    draw: Callable[..., None]
    """(run, choice) -> None"""
    has: Callable[[Run], bool] = lambda run: True


def offered(page: str, run: Run) -> list[Tab]:
    """The tabs of a page that have something to show of this run, in the order in which its track
    names them: FILE.NAME, the file in pages/tabs."""
    found: list[Tab] = []
    for named in track_of(run).screens.tabs.get(page, ()):
        file, _, name = named.partition(".")
        found.append(getattr(importlib.import_module(f"pages.tabs.{file}"), name))
    return [tab for tab in found if tab.has(run)]


def draw_tabs(page: str, run: Run, choice: Choice, tabs: Sequence[Tab]) -> None:
    """The strip of tabs, each linkable (`?tab=layers`), and what the open one shows. A single tab
    needs no strip."""
    if not tabs:
        st.info("This audit kept nothing that this page could show.")
        return
    if len(tabs) == 1:
        tabs[0].draw(run, choice)
        return
    key, titles = state.key_of(state.TAB, page), [tab.title for tab in tabs]
    state.restore_tab(key, titles)
    for box, tab in zip(st.tabs(titles, key=key, on_change="rerun"), tabs, strict=True):
        if box.open:
            state.keep(key, tab.title)  # "Which heads" is `which_heads` in the address
            state.to_address(state.TAB, tab.title.casefold().replace(" ", "_"))
            with box:
                tab.draw(run, choice)
