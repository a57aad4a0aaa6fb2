"""Model first: a line on every page that says what is looked at, and behind its button everything
else there is. Who opens the app without naming an audit meets cards and a tour."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import streamlit as st

from engine.audit import tracks as entries
from engine.core import words
from engine.core.errors import PruneAuditError
from engine.core.files import ASSETS
from engine.report import story
from engine.report.charts.by_group import thumbnail
from engine.report.contents import default_choice
from engine.report.tracks import track_of, tracks
from engine.store.runs import Run, RunSummary
from pages.shared import cache, state
from pages.shared.controls import button, capital, grid, is_dark
from pages.shared.safe import boundary, escaped, header, visible

AT_FIRST = 10
"""Cards before a reader asks for more: each one is read from disk."""


def subject_line(run: cache.KeptRun | None) -> None:
    """Model, data and what is cut of the chosen audit, and the button that leads to others."""
    with st.container(key=state.SUBJECT, horizontal=True, vertical_alignment="center", gap="small"):
        said = "No finished audit yet."
        if run is not None:
            track = track_of(run)
            rest = " · ".join(
                escaped(text) for text in (track.evidence.data(run), track.nouns.about)
            )
            said = f"{_model(run.model['name'])} · {rest}"
        st.html(f'<p class="pa-subject">{said}</p>', width="content")
        button(
            "Switch" if run else "Choose a model",
            (state.SWITCH,),
            state.keep,
            state.SWITCH,
            True,
            icon="swap_horiz",
            help="Other audits, other models",
        )
        if run is not None:
            copy = '<button type="button" class="pa-copy" title="To this view">Copy link</button>'
            st.html(copy, width="content")
    if state.take(state.SWITCH):
        choose_audit()


def _model(name: str) -> str:
    """A model's name as HTML; of a path its last part, the whole on pointing at it."""
    return f'<strong title="{escaped(name)}">{escaped(words.model_name(name))}</strong>'


@st.dialog("Which model?", width="large")
def choose_audit() -> None:
    """Finished audits as cards, models without one, and the way to the form."""
    if state.kept(state.GO_TO):
        st.rerun()  # closes the dialog; the run that follows opens the page
    with boundary():
        summaries = cache.all_runs()
        kinds = {summary.id: cache.track_name_of(summary.id) for summary in summaries}
        with st.container(
            horizontal=True, horizontal_alignment="distribute", vertical_alignment="bottom"
        ):
            picked = _kind(set(kinds.values()))
            new = ("gallery", "new")
            button("New audit", new, state.go, "new_audit", icon="add", type="primary")
        here = [summary for summary in summaries if picked in (None, kinds[summary.id])]
        _grid(here if state.value_of(state.GALLERY_MORE) else here[:AT_FIRST], _card)
        if len(here) > AT_FIRST:
            st.toggle(f"Show all {len(here)}", key=state.GALLERY_MORE)
        for name, entry in entries.tracks().items():
            if entry.quick and picked in (None, name):
                _quick(name, {summary.model for summary in summaries})


def _kind(kinds: set[str]) -> str | None:
    """A filter by kind where there are several. None: all."""
    about = {name: capital(track.nouns.about) for name, track in tracks().items() if name in kinds}
    if len(about) < 2:
        return None
    named = about.__getitem__
    return st.pills("What is cut", about, format_func=named, key=state.GALLERY_KIND)


def _grid(cards: Sequence[Any], draw: Callable[[Any], None]) -> None:
    """Cards in rows of two, so that neighbours are equally high."""
    for column, one in grid(cards, 2, "small"):
        box = column.container(border=True, height="stretch", vertical_alignment="distribute")
        with box:
            draw(one)


def _card(summary: RunSummary) -> None:
    try:
        run = cache.open_run(summary.id)
        about, data, found = (
            track_of(run).nouns.about,
            track_of(run).evidence.data(run),
            cache.made(run, _found),
        )
    except PruneAuditError as error:
        about, data, found = "", "", str(error)
    when = f"{summary.created[:10]} · {'embedded' if summary.embedded else 'your store'}"
    st.html(
        f'<div class="pa-kind">{escaped(capital(about))}</div>'
        f'<div class="pa-title">{escaped(words.title_said(summary.title, summary.axes))}</div>'
        f'<div class="pa-line">{_model(summary.model)} · {escaped(data)}</div>'
        f'<p class="pa-found">{escaped(found)}</p><div class="pa-note">{escaped(when)}</div>'
    )
    is_shown = summary.id == state.kept(state.RUN)
    label, key = "Shown now" if is_shown else "Open", ("choose", summary.id)
    button(label, key, state.open_run, summary.id, disabled=is_shown, width="stretch")


def _found(run: Run) -> str:
    return story.in_short(run, default_choice(run))


def _quick(track: str, audited: set[str]) -> None:
    """An audit for the naming of a model: one of those that are here without one, or any other."""
    header("A model without an audit")
    shelves = [shelf for shelf in entries.tracks()[track].part("shelves")() if shelf.models]
    here = [model for shelf in shelves for model in shelf.table["Name"]]
    left, right = st.columns([3, 1], gap="small", vertical_alignment="bottom")
    key = state.key_of("quick", track)
    with left:
        st.selectbox(
            "Model",
            [model for model in here if not {model, Path(model).name} & audited],
            index=None,
            format_func=visible,
            accept_new_options=True,
            key=key,
            placeholder="Choose, or type a folder or hub name",
        )
    with right:
        start = ("quick_start", track)
        button("Quick audit", start, _start, track, key, icon="bolt", width="stretch")
    st.caption(entries.tracks()[track].part("quick").said)


def _start(track: str, key: str) -> None:
    """Leave it to the page of new audits to start the audit: there it is watched, too."""
    if model := str(state.value_of(key) or "").strip():
        state.keep(state.QUICK, (track, model))
        state.go("new_audit")
    else:
        st.toast("Choose or name a model first.")


# The first page of a first visit: one finished audit per kind with what it found, and the way to
# a model of one's own. A link to an audit never leads here.

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
    st.query_params.pop(state.RUN, None)  # a link to this page is a link to this page
    st.html(ASSETS / "landing.css")
    st.title(TITLE, anchor=False)
    st.html(f'<p class="pa-lead">{escaped(ABOUT)}</p>')
    kinds: dict[str, cache.KeptRun] = {}
    for summary in cache.all_runs():
        try:
            kinds.setdefault(cache.track_name_of(summary.id), cache.open_run(summary.id))
        except PruneAuditError:
            continue  # the page Audits says why it cannot be read
    _grid(list(kinds.values()), _landing_card)
    with st.container(horizontal=True, vertical_alignment="center"):
        button("Bring your own model", ("landing", "new"), _own, icon="add")
        st.caption("The background process computes on this machine; nothing is sent anywhere.")


def _landing_card(run: cache.KeptRun) -> None:
    about, picture = capital(track_of(run).nouns.about), cache.made(run, _picture, is_dark())
    shown = key = ""
    if picture:
        data = base64.b64encode(picture.encode()).decode()
        shown = (
            f'<img class="pa-thumb" src="data:image/svg+xml;base64,{data}" alt="Who pays, before'
            ' and after the cut">'
        )
        key = "hollow: before the cut · full: after"
    st.html(
        f'<div class="pa-kind">{escaped(about)} · {_model(run.model["name"])}</div>'
        f'<div class="pa-landing"><p class="pa-found">{escaped(cache.made(run, _found))}</p>'
        f'<figure class="pa-thumb-box">{shown}<figcaption>{key}</figcaption></figure></div>'
    )
    button("Open this audit", ("landing", run.id), _tour, run.id, width="stretch")


def _picture(run: Run, dark: bool) -> str:
    return thumbnail(run, default_choice(run, dark=dark))


def _tour(run_id: str) -> None:
    """Open an audit, and lead through it unless the tour was skipped."""
    leave()
    state.choose_run(run_id)
    if not state.kept(state.TOUR_OFF):
        state.keep(state.TOUR, 1)


def _own() -> None:
    leave()
    state.go("new_audit")


# Three steps through an audit for who opens one for the first time: a line below the frame,
# skipped with one click.

NO = "no"
"""`?tour=no` in an address: this session shows none."""
STEPS = (
    "The result: who gets worse, who better. Lines are 95 % intervals; the slider sets how much is"
    " cut.",
    "Why: which parts were cut, and what each of them does.",
    "How sure: everything behind the numbers. Present and Export, below it, take them along.",
)


def tour_line(run: Run | None) -> str:
    """Draw the step that the reader is at; the page that is asked for with it, "" for none."""
    if state.in_address(state.TOUR) == NO:
        _skip()
    number = state.kept(state.TOUR)
    if not number or run is None:
        return ""
    is_last = number == len(STEPS)
    with st.container(
        key=state.TOUR_LINE, horizontal=True, vertical_alignment="center", border=True
    ):
        st.markdown(f"**{number} of {len(STEPS)}** {STEPS[number - 1]}")
        if not is_last:
            button("Next", ("tour", "next"), _next, number + 1, type="primary")
        button("Done" if is_last else "Skip the tour", ("tour", "skip"), _skip)
    pages = ("summary", track_of(run).screens.pages[0], "measured")
    return pages[number - 1] if state.take(state.TOUR_MOVED) else ""


def _next(number: int) -> None:
    state.keep(state.TOUR, number)
    state.keep(state.TOUR_MOVED, True)


def _skip() -> None:
    """Never again in this session."""
    state.take(state.TOUR)
    state.keep(state.TOUR_OFF, True)
