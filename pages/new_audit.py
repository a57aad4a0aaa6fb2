"""New audit: of a model that was named, or from the form; started in the background and watched
here."""

from __future__ import annotations

import streamlit as st

from engine.audit.tracks import track_named
from pages.shared import form, jobs, state
from pages.shared.frame import draw_page, heading
from pages.shared.safe import boundary


def page() -> None:
    heading("new_audit", notes=False)
    with boundary():
        _quick()
    with boundary():
        _new()


def _quick() -> None:
    """The audit that was asked for by naming a model: checked and started at once, then how far it
    is."""
    if asked := state.take(state.QUICK):
        track, model = asked
        state.keep(state.QUICK_STARTED, None)
        with st.spinner("Checking the model …"):
            request = track_named(track).part("quick").request(model)
            state.keep(state.QUICK_STARTED, jobs.start(request))
    if state.kept(state.QUICK_STARTED):
        jobs.one(state.kept(state.QUICK_STARTED))


def _new() -> None:
    st.markdown(
        "Bring your own model and data, or start from the embedded ones. Everything is checked"
        " before anything heavy loads, and finished parts survive a stop."
    )
    request, faults = form.any_kind()
    ray, memory = _where()
    form.amount_line(request)
    above = st.container()  # of the buttons: below them nobody sees it without scrolling
    start, tried, look = st.columns([1, 1, 2], vertical_alignment="center")
    with tried:
        form.forecast_button(request)
    with look:
        form.inspect_button(request)
    form.inspected(request)
    if start.button("Check and start", type="primary", icon=":material/play_arrow:"):
        state.keep(state.STARTED, None)
        with st.spinner("Checking the model and the data …"), form.remembered(request):
            state.keep(state.STARTED, jobs.start(request, faults, ray, memory))
        st.toast(
            "Checked and started. Its progress stands above the buttons, and on the page Jobs."
        )
    with above:
        form.summary_of_faults(request)  # after the check, which may have cleared them
        if state.kept(state.STARTED):
            jobs.one(state.kept(state.STARTED))
            st.caption(
                "Runs in the background: this page may be closed, and the page Jobs finds it again."
            )


def _where() -> tuple[str, str]:
    """The cluster that shall compute the audit, "" for this machine, and what it may take of
    memory, "" for a share."""
    with st.expander("Memory, and many machines"):
        st.caption(
            "A smaller limit means smaller batches. Left empty, three quarters of the free memory "
            "may be used."
        )
        allowed = st.text_input(
            "Memory that may be taken", key=state.MEMORY, placeholder="4G", max_chars=20
        )
        st.caption(
            "On a Ray cluster every worker takes parts of the audit; the numbers are the same to"
            " the bit."
        )
        typed = st.text_input(
            "Address of the cluster", key=state.RAY, placeholder="host:port", max_chars=200
        )
    return typed.strip(), allowed.strip()


draw_page(page)
