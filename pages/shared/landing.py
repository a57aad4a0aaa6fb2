"""The first page of a first visit: one finished audit per kind with what it found, and the way to a
model of one's own.

It is met by who opens the app without naming an audit; a link to one never leads here.
"""

from __future__ import annotations

import base64

import streamlit as st

from engine.core.errors import PruneAuditError
from engine.core.files import ASSETS
from engine.report import phrasing, story
from engine.report.charts.panel import Choice
from engine.report.charts.thumbnail import thumbnail
from engine.report.contents import default_choice
from engine.report.tracks import track_of
from engine.store.runs import Run
from pages.shared import cache, state, tour
from pages.shared.safe import escaped

TITLE = "If we cut these parts of a model, who pays?"
ABOUT = (
    "PruneAudit cuts parts of a model, measures every group of people before and after, and shows"
    " who gets worse and how sure that is. Open a finished audit:"
)


def notice() -> None:
    """Remember whether this session began without an audit in its address."""
    if state.in_address(state.RUN):
        leave()
    elif state.wanted_run() is None:
        state.keep(state.WELCOME, True)


def leave() -> None:
    """From now on pages show the chosen audit."""
    state.take(state.WELCOME)


def is_due() -> bool:
    return bool(state.kept(state.WELCOME) and cache.all_runs())


def show() -> None:
    """Title, what the app is, and a card per kind of audit, its newest one."""
    state.forget_address(state.RUN)  # a link to this page is a link to this page
    st.html(ASSETS / "landing.css")
    st.title(TITLE, anchor=False)
    st.html(f'<p class="pa-lead">{escaped(ABOUT)}</p>')
    found = _first_of_each_kind()
    for start in range(0, len(found), 2):
        for column, run in zip(st.columns(2, gap="small"), found[start : start + 2], strict=False):
            with (
                column,
                st.container(border=True, height="stretch", vertical_alignment="distribute"),
            ):
                _card(run)
    with st.container(horizontal=True, vertical_alignment="center"):
        key = state.key_of("landing", "new")
        st.button("Bring your own model", key=key, icon=":material/add:", on_click=_own)
        st.caption("The background process computes on this machine; nothing is sent anywhere.")


def _first_of_each_kind() -> list[cache.KeptRun]:
    """A reader's own newest audit of a kind, else the embedded one; those that cannot be read are
    left out."""
    kinds: dict[str, cache.KeptRun] = {}
    for summary in cache.all_runs():
        try:
            kinds.setdefault(cache.track_name_of(summary.id), cache.open_run(summary.id))
        except PruneAuditError:
            continue
    return list(kinds.values())


def _card(run: cache.KeptRun) -> None:
    about = f"{phrasing.sentence(track_of(run).about)}"
    dark = st.context.theme.type == "dark"
    picture, said = cache.made(run, _picture, dark), cache.made(run, _said)
    data = base64.b64encode(picture.encode()).decode()
    shown = (
        f'<img class="pa-thumb" src="data:image/svg+xml;base64,{data}" alt="Who pays, before and'
        ' after the cut">'
    )
    key = "hollow: before the cut · full: after" if picture else ""
    st.html(
        f'<div class="pa-kind">{escaped(about)} · {escaped(run.meta["model"]["name"])}</div>'
        f'<div class="pa-landing"><p class="pa-found">{escaped(said)}</p>'
        "<figure"
        f' class="pa-thumb-box">{shown if picture else ""}<figcaption>{key}</figcaption></figure></div>'
    )
    st.button(
        "Open this audit",
        key=state.key_of("landing", run.id),
        on_click=_open,
        args=(run.id,),
        width="stretch",
    )


def _choice(run: Run, dark: bool = False) -> Choice:
    return default_choice(run, dark=dark)


def _picture(run: Run, dark: bool) -> str:
    return thumbnail(run, _choice(run, dark))


def _said(run: Run) -> str:
    return story.in_short(run, _choice(run))


def _open(run_id: str) -> None:
    leave()
    state.choose_run(run_id)
    tour.begin()


def _own() -> None:
    leave()
    state.keep(state.GO_TO, "new_audit")
