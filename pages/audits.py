"""Audits: every finished one that is here. Open one, rename it, delete it, compare those that are
ticked."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import streamlit as st

from engine.core import words
from engine.core.errors import PruneAuditError
from engine.report import phrasing
from engine.report.charts.compare import comparable
from engine.report.summary import ORDERS, searched
from engine.report.tracks import tracks
from engine.store.runs import RunSummary, default_root
from pages.shared import cache, jobs, state
from pages.shared.controls import button, capital, search, select
from pages.shared.frame import draw_page, heading, title_of
from pages.shared.safe import boundary, caption, faults_of, plain, show_errors, visible

MOST = 5
"""Audits that are compared at a time."""
UNLIKE = "These audits measure different things, so they cannot be compared."


def page() -> None:
    heading("audits", notes=False)
    _undo()
    for why in cache.damaged_runs().values():
        st.warning(plain(f"An audit cannot be shown: {why}"), icon=":material/broken_image:")
    summaries = cache.all_runs()
    if summaries:
        _compare([one.id for one in summaries if state.value_of(_tick(one.id))])
    else:
        st.info("No finished audit yet.")
    starred = jobs.store().favourites()
    for summary in _found(summaries, starred) if summaries else ():
        with boundary():
            _audit(summary, summary.id in starred)
    _trash()
    st.caption(f"Your store: {default_root()}")


def _found(summaries: list[RunSummary], first: set[str]) -> list[RunSummary]:
    """Those that hold what is typed, in the order that is asked for, favourites first."""
    left, right = st.columns([3, 1], vertical_alignment="bottom")
    with left:
        typed = search("Search title, model, axis, method", state.SEARCH_AUDITS)
    with right:
        found = searched(summaries, typed, select("Sorted by", ORDERS, state.SORTED), first)
    if not found:
        st.info("No audit holds these words.")
    return found


def _audit(summary: RunSummary, starred: bool) -> None:
    track = tracks().get(cache.track_name_of(summary.id))
    axes = phrasing.listing(map(words.axis_name, summary.axes), 3)
    methods = phrasing.listing((words.method_name(method) for method in summary.methods), 2)
    origin = "" if summary.embedded else " · your store"
    title = title_of(summary.title, summary.axes)
    with st.container(border=True, horizontal=True, vertical_alignment="center"):
        st.checkbox(
            f"Compare {plain(title)}",
            key=_tick(summary.id),
            label_visibility="collapsed",
            width="content",
        )
        with st.container(gap="xxsmall"):
            st.text(visible(title))
            about = capital(track.nouns.about) if track else "Of a kind that is not here"
            caption(f"{about} · {summary.created[:10]}{origin} · {axes} · {methods}")
        key, star = ("favour", summary.id), "★" if starred else "☆"
        look = {"type": "tertiary", "width": "content", "help": "Favourites stand first."}
        favour = partial(jobs.store().favour, summary.id, not starred)
        button(f"{star} Favourite", key, _try, favour, **look)
        key = ("open", summary.id)
        button("Open", key, state.open_run, summary.id, icon="dashboard", width="content")
        _more(summary, title)


def _tick(run_id: str) -> str:
    return state.key_of(state.TICKED, run_id)


def _more(summary: RunSummary, title: str) -> None:
    """Rename and delete, folded away."""
    key, run_id = state.key_of(state.TITLE, summary.id), summary.id
    with st.popover("More", key=state.key_of("more", run_id), width="content"):
        help_text = "Kept beside the audit. Empty: its own title."
        st.text_input("Title", value=visible(title), key=key, help=help_text)
        rename = lambda: jobs.store().rename(run_id, str(state.value_of(key) or ""))  # noqa: E731
        button("Rename", ("rename", run_id), _try, rename)
        if summary.embedded:
            st.caption("An embedded audit comes with the program and cannot be deleted.")
        else:
            button("Delete", ("delete", run_id), _delete, run_id, icon="delete")


def _compare(ticked: list[str]) -> None:
    """What is ticked, side by side."""
    enough = 2 <= len(ticked) <= MOST
    alike = enough and comparable(*map(cache.track_name_of, ticked))
    with st.container(horizontal=True, vertical_alignment="center"):
        label, key = f"Compare {len(ticked)} audits" if enough else "Compare", ("compare", "ticked")
        button(label, key, _open_compare, ticked, icon="compare_arrows", disabled=not alike)
        if not alike:
            st.caption(UNLIKE if enough else f"Tick 2 to {MOST} audits.")


def _open_compare(ticked: list[str]) -> None:
    state.choose_run(ticked[0])
    state.put(state.COMPARED, ticked[1:])
    state.go("compare")


def _delete(run_id: str) -> None:
    if _try(lambda: jobs.store().delete(run_id)):
        state.keep(state.DELETED, run_id)


def _restore(run_id: str) -> None:
    if _try(lambda: jobs.store().restore(run_id)):
        state.take(state.DELETED)


def _try(do: Callable[[], object]) -> bool:
    """Whether it could be done; what speaks against it is kept for the page, which is drawn after
    its callbacks."""
    try:
        do()
    except PruneAuditError as error:
        state.keep(state.FAILED, faults_of(error))
        return False
    cache.look_again()
    return True


def _undo() -> None:
    """What was deleted last, and the way back; or why something could not be done."""
    show_errors(state.take(state.FAILED) or ())
    run_id = state.kept(state.DELETED)
    if run_id is None:
        return
    with st.container(border=True, horizontal=True, vertical_alignment="center"):
        named = _deleted_title(run_id, jobs.store().deleted().get(run_id))
        st.text(f"{named} was moved to the trash.")
        key = ("undo", "delete")
        button("Undo", key, _restore, run_id, icon="undo", type="primary")


def _deleted_title(run_id: str, summary: RunSummary | None) -> str:
    return title_of(summary.title, summary.axes) if summary else run_id


def _trash() -> None:
    """Everything that was deleted and can be brought back."""
    found = jobs.store().deleted()
    if not found:
        return
    with st.expander(f"Trash ({len(found)})", icon=":material/delete:"):
        folder = default_root() / "trash"
        caption(f"Kept in {folder}: delete folders there to free their space.")
        for run_id, summary in found.items():
            with st.container(horizontal=True, vertical_alignment="center"):
                st.text(_deleted_title(run_id, summary))
                button("Bring back", ("restore", run_id), _restore, run_id, icon="undo")


draw_page(page)
