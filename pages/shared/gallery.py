"""Model first: a line on every page that says what is looked at, and behind its button everything
else there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import streamlit as st

from engine.audit import tracks as entries
from engine.core import words
from engine.core.errors import PruneAuditError
from engine.report import phrasing
from engine.report.finding import finding
from engine.report.tracks import track_of, tracks
from engine.store.runs import RunSummary
from pages.shared import cache, state
from pages.shared.safe import escaped, visible
from pages.shared.wall import boundary

AT_FIRST = 8
"""Cards before a reader asks for more: each one is read from disk."""


def line(run: cache.KeptRun | None) -> None:
    """Model, data and what is cut of the chosen audit, and the button that leads to others."""
    with st.container(key=state.SUBJECT, horizontal=True, vertical_alignment="center", gap="small"):
        st.html(f'<p class="pa-subject">{_subject(run)}</p>', width="content")
        label = "Switch" if run else "Choose a model"
        icon, about = ":material/swap_horiz:", "Other audits, other models"
        st.button(
            label,
            key=state.SWITCH,
            icon=icon,
            help=about,
            on_click=state.keep,
            args=(state.SWITCH, True),
        )
    if state.take(state.SWITCH):
        choose()


def _subject(run: cache.KeptRun | None) -> str:
    if run is None:
        return "No finished audit yet."
    track = track_of(run)
    rest = " · ".join(escaped(text) for text in (track.data(run), track.about))
    return f"{_model(run.meta['model']['name'])} · {rest}"


def _model(name: str) -> str:
    """A model's name as HTML; of a path its last part, the whole on pointing at it."""
    short = Path(name).name if name.startswith(("/", "~", ".")) else name
    return f'<strong title="{escaped(name)}">{escaped(short)}</strong>'


@st.dialog("Which model?", width="large")
def choose() -> None:
    """Finished audits as cards, models without one, and the way to the form."""
    if state.kept(state.GO_TO):
        st.rerun()  # closes the dialog; the run that follows opens the page
    with boundary():
        summaries = cache.all_runs()
        with st.container(
            horizontal=True, horizontal_alignment="distribute", vertical_alignment="bottom"
        ):
            kinds = {summary.id: cache.track_name_of(summary.id) for summary in summaries}
            picked = _kind(kinds)
            key = state.key_of("gallery", "new")
            st.button(
                "New audit",
                key=key,
                icon=":material/add:",
                type="primary",
                on_click=state.go,
                args=("new_audit",),
            )
        _cards([summary for summary in summaries if picked in (None, kinds[summary.id])])
        for name, entry in entries.tracks().items():
            if entry.quick and picked in (None, name):
                _quick(name, {summary.model for summary in summaries})


def _kind(kinds: Mapping[str, str]) -> str | None:
    """A filter by kind where there are several; `kinds` by audit. None: all."""
    known = [name for name in tracks() if name in kinds.values()]
    if len(known) < 2:
        return None
    about = {name: phrasing.sentence(tracks()[name].about) for name in known}
    return st.pills(
        "What is cut", known, format_func=about.__getitem__, key=state.GALLERY_KIND, width="content"
    )


def _cards(summaries: Sequence[RunSummary]) -> None:
    """Cards in rows of two, so that neighbours are equally high."""
    first = summaries if state.value_of(state.GALLERY_MORE) else summaries[:AT_FIRST]
    for start in range(0, len(first), 2):
        for column, summary in zip(
            st.columns(2, gap="small"), first[start : start + 2], strict=False
        ):
            with (
                column,
                st.container(border=True, height="stretch", vertical_alignment="distribute"),
            ):
                _card(summary)
    if len(summaries) > AT_FIRST:
        st.toggle(f"Show all {len(summaries)}", key=state.GALLERY_MORE)


def _card(summary: RunSummary) -> None:
    try:
        run = cache.open_run(summary.id)
        about, data, found = track_of(run).about, track_of(run).data(run), cache.made(run, finding)
    except PruneAuditError as error:
        about, data, found = "", "", str(error)
    when = f"{summary.created[:10]} · {'embedded demo' if summary.embedded else 'your store'}"
    st.html(
        f'<div class="pa-kind">{escaped(phrasing.sentence(about))}</div>'
        f'<div class="pa-title">{escaped(words.title_said(summary.title, summary.axes))}</div>'
        f'<div class="pa-line">{_model(summary.model)} · {escaped(data)}</div>'
        f'<p class="pa-found">{escaped(found)}</p><div class="pa-note">{escaped(when)}</div>'
    )
    is_shown = summary.id == state.kept(state.RUN)
    label = "Shown now" if is_shown else "Open"
    key = state.key_of("choose", summary.id)
    st.button(
        label, key=key, disabled=is_shown, width="stretch", on_click=_open, args=(summary.id,)
    )


def _open(run_id: str) -> None:
    state.choose_run(run_id)
    state.go("summary")


def _quick(track: str, audited: set[str]) -> None:
    """An audit for the naming of a model: one of those that are here without one, or any other."""
    st.header("A model without an audit", anchor=False)
    here = [
        model
        for shelf in tracks()[track].shelves()
        if shelf.models
        for model in shelf.table["Name"]
    ]
    free = [model for model in here if not {model, Path(model).name} & audited]
    left, right = st.columns([3, 1], gap="small", vertical_alignment="bottom")
    key = state.key_of("quick", track)
    with left:
        st.selectbox(
            "Model",
            free,
            index=None,
            format_func=visible,
            accept_new_options=True,
            key=key,
            placeholder="Choose, or type a folder or hub name",
        )
    with right:
        st.button(
            "Quick audit",
            key=state.key_of("quick_start", track),
            icon=":material/bolt:",
            width="stretch",
            on_click=_start,
            args=(track, key),
        )
    st.caption(entries.tracks()[track].part("quick").said)


def _start(track: str, key: str) -> None:
    """Leave it to the page of new audits to start the audit: there it is watched, too."""
    if model := str(state.value_of(key) or "").strip():
        state.keep(state.QUICK, (track, model))
        state.go("new_audit")
    else:
        st.toast("Choose or name a model first.")
