"""Model first: a line on every page that says what is looked at, and behind its button everything
else there is."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path

import streamlit as st

from engine.audit import tracks as entries
from engine.core import words
from engine.core.errors import PruneAuditError
from engine.core.files import ASSETS
from engine.report import phrasing, story
from engine.report.charts.panel import Choice
from engine.report.charts.thumbnail import thumbnail
from engine.report.contents import default_choice
from engine.report.finding import finding
from engine.report.tracks import track_of, tracks
from engine.store.runs import Run, RunSummary
from pages.shared import cache, state
from pages.shared.safe import boundary, escaped, visible

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


# The first page of a first visit: one finished audit per kind with what it found, and the way to
# a model of one's own.
#
# It is met by who opens the app without naming an audit; a link to one never leads here.


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
                _landing_card(run)
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


def _landing_card(run: cache.KeptRun) -> None:
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
        f'<figure class="pa-thumb-box">{shown if picture else ""}<figcaption>{key}</figcaption>'
        "</figure></div>"
    )
    st.button(
        "Open this audit",
        key=state.key_of("landing", run.id),
        on_click=_landing_open,
        args=(run.id,),
        width="stretch",
    )


def _choice(run: Run, dark: bool = False) -> Choice:
    return default_choice(run, dark=dark)


def _picture(run: Run, dark: bool) -> str:
    return thumbnail(run, _choice(run, dark))


def _said(run: Run) -> str:
    return story.in_short(run, _choice(run))


def _landing_open(run_id: str) -> None:
    leave()
    state.choose_run(run_id)
    begin()


def _own() -> None:
    leave()
    state.keep(state.GO_TO, "new_audit")


# Three steps through an audit for who opens one for the first time: a line below the frame,
# skipped with one click.


NO = "no"
"""`?tour=no` in an address: this session shows none."""
STEPS = (
    (
        "summary",
        (
            "The result: who gets worse, who better. Lines are 95 % intervals; the slider sets how"
            " much is cut."
        ),
    ),
    ("", "Why: which parts were cut, and what each of them does."),
    (
        "measured",
        "How sure: everything behind the numbers. Present and Export, below it, take them along.",
    ),
)
"""Page and words of each step; "": the first page of the audit's own kind."""


def begin() -> None:
    """Start it, unless it was skipped."""
    if not state.kept(state.TOUR_OFF):
        state.keep(state.TOUR, 1)


def tour_line(run: Run | None) -> str:
    """Draw the step that the reader is at; the page that is asked for with it, "" for none."""
    if state.in_address(state.TOUR) == NO:
        skip()
    number = state.kept(state.TOUR)
    if not number or run is None:
        return ""
    with st.container(
        key=state.TOUR_LINE, horizontal=True, vertical_alignment="center", border=True
    ):
        st.markdown(f"**{number} of {len(STEPS)}** {STEPS[number - 1][1]}")
        if number < len(STEPS):
            st.button(
                "Next",
                key=state.key_of("tour", "next"),
                type="primary",
                on_click=_next,
                args=(number + 1,),
            )
        label = "Skip the tour" if number < len(STEPS) else "Done"
        st.button(label, key=state.key_of("tour", "skip"), on_click=skip)
    return (STEPS[number - 1][0] or track_of(run).pages[0]) if state.take(state.TOUR_MOVED) else ""


def _next(number: int) -> None:
    state.keep(state.TOUR, number)
    state.keep(state.TOUR_MOVED, True)


def skip() -> None:
    """Never again in this session."""
    state.take(state.TOUR)
    state.keep(state.TOUR_OFF, True)
