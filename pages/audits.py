"""Audits: every finished one that is here. Open one, rename it, delete it, compare those that are
ticked."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from engine.core import words
from engine.core.errors import PruneAuditError, RequestError
from engine.report import phrasing
from engine.report.tracks import tracks
from engine.store import titles, trash
from engine.store.runs import RunSummary, default_root
from pages.shared import cache, jobs, state
from pages.shared.controls import capital
from pages.shared.frame import begin_app, boundary, heading, title_of
from pages.shared.safe import plain, visible

MOST = 5
"""Audits that are compared at a time."""


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
    for summary in summaries:
        with boundary():
            _audit(summary)
    _trash()
    st.caption(f"Your store: {default_root()}")


def _audit(summary: RunSummary) -> None:
    track = tracks().get(cache.track_name_of(summary.id))
    axes = ", ".join(words.axis_name(axis) for axis in summary.axes)
    methods = phrasing.listing((words.method_name(method) for method in summary.methods), 4)
    origin = "embedded demo" if summary.embedded else "your store"
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
            about = capital(track.about) if track else "Of a kind that is not here"
            st.caption(plain(f"{about} · {summary.created[:10]} · {origin} · {axes} · {methods}"))
        st.button(
            "Open",
            key=state.key_of("open", summary.id),
            icon=":material/dashboard:",
            width="content",
            on_click=jobs.open_run,
            args=(summary.id,),
        )
        _more(summary, title)


def _tick(run_id: str) -> str:
    return state.key_of(state.TICKED, run_id)


def _more(summary: RunSummary, title: str) -> None:
    """Rename and delete, folded away."""
    key = state.key_of(state.TITLE, summary.id)
    with st.popover("More", key=state.key_of("more", summary.id), width="content"):
        st.text_input(
            "Title",
            value=visible(title),
            key=key,
            help="Kept beside the audit. Empty: its own title.",
        )
        st.button(
            "Rename",
            key=state.key_of("rename", summary.id),
            on_click=_rename,
            args=(summary.id, key),
        )
        if summary.embedded:
            st.caption("An embedded audit comes with the program and cannot be deleted.")
        else:
            key = state.key_of("delete", summary.id)
            st.button(
                "Delete", key=key, icon=":material/delete:", on_click=_delete, args=(summary.id,)
            )


def _compare(ticked: list[str]) -> None:
    """What is ticked, side by side."""
    enough = 2 <= len(ticked) <= MOST
    with st.container(horizontal=True, vertical_alignment="center"):
        label = f"Compare {len(ticked)} audits" if enough else "Compare"
        st.button(
            label,
            key=state.key_of("compare", "ticked"),
            disabled=not enough,
            icon=":material/compare_arrows:",
            on_click=_open_compare,
            args=(ticked,),
        )
        if not enough:
            st.caption(f"Tick two to {MOST} audits to lay them side by side.")


def _open_compare(ticked: list[str]) -> None:
    state.choose_run(ticked[0])
    state.put(state.COMPARED, ticked[1:])
    state.go("compare")


def _rename(run_id: str, key: str) -> None:
    _try(lambda: titles.rename(default_root(), run_id, str(state.value_of(key) or "")))


def _delete(run_id: str) -> None:
    if _try(lambda: trash.delete(jobs.store(), run_id)):
        state.keep(state.DELETED, run_id)


def _restore(run_id: str) -> None:
    if _try(lambda: trash.restore(jobs.store(), run_id)):
        state.take(state.DELETED)


def _try(do: Callable[[], object]) -> bool:
    """Whether it could be done; what speaks against it is kept for the page, which is drawn after
    its callbacks."""
    try:
        do()
    except PruneAuditError as error:
        faults = (
            [str(fault) for fault in error.faults]
            if isinstance(error, RequestError)
            else [str(error)]
        )
        state.keep(state.REFUSED, faults)
        return False
    cache.look_again()
    return True


def _undo() -> None:
    """What was deleted last, and the way back; or why something could not be done."""
    for fault in state.take(state.REFUSED) or ():
        st.error(plain(fault), icon=":material/error:")
    run_id = state.kept(state.DELETED)
    if run_id is None:
        return
    with st.container(border=True, horizontal=True, vertical_alignment="center"):
        found = trash.deleted(jobs.store()).get(run_id)
        st.text(f"{title_of(found.title, found.axes) if found else run_id} was moved to the trash.")
        st.button(
            "Undo",
            key=state.key_of("undo", "delete"),
            type="primary",
            icon=":material/undo:",
            on_click=_restore,
            args=(run_id,),
        )


def _trash() -> None:
    """Everything that was deleted and can be had back."""
    found = trash.deleted(jobs.store())
    if not found:
        return
    with st.expander(f"Trash ({len(found)})", icon=":material/delete:"):
        st.caption(
            plain(f"Kept in {default_root() / 'trash'}: delete folders there to free their space.")
        )
        for run_id, summary in found.items():
            with st.container(horizontal=True, vertical_alignment="center"):
                st.text(title_of(summary.title, summary.axes) if summary else run_id)
                key = state.key_of("restore", run_id)
                st.button(
                    "Bring back", key=key, icon=":material/undo:", on_click=_restore, args=(run_id,)
                )


begin_app()
with boundary():
    page()
