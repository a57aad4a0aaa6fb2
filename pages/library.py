"""Library: audits, jobs, models, judges and data that are here, and the form that starts an audit of your own."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import streamlit as st

from engine.audit.tracks import track_named
from engine.core import words
from engine.models import catalog
from engine.report.tracks import tracks
from engine.store.runs import default_root
from pages.shared import cache, form, jobs, panels, state
from pages.shared.controls import capital
from pages.shared.frame import begin_app, boundary, heading, title_of, turn_to
from pages.shared.safe import plain


def page() -> None:
    heading("library", notes=False)
    with boundary():
        _quick()
    new, running, audits, models = st.tabs(["New audit", "Jobs", "Audits", "Models and judges"])
    with new, boundary():
        _new()
    with running, boundary():
        jobs.watch()
    with audits, boundary():
        _audits()
    with models, boundary():
        _models()


def _quick() -> None:
    """The audit that was asked for by naming a model: checked and started at once, then how far it is."""
    if asked := state.take(state.QUICK):
        track, model = asked
        state.keep(state.QUICK_STARTED, None)
        with st.spinner("Checking the model …"):
            state.keep(state.QUICK_STARTED, jobs.start(track_named(track).part("quick").request(model)))
    if state.kept(state.QUICK_STARTED):
        jobs.one(state.kept(state.QUICK_STARTED))


def _new() -> None:
    st.markdown(
        "Bring your own model and data, or start from the embedded ones. Everything is checked before "
        "anything heavy loads, and finished parts survive a stop."
    )
    request, faults = form.ask()
    if st.button("Check and start", type="primary", icon=":material/play_arrow:"):
        state.keep(state.STARTED, None)
        with st.spinner("Checking the model and the data …"):
            state.keep(state.STARTED, jobs.start(request, faults))
    if state.kept(state.STARTED):
        st.caption("Runs in the background: this page may be closed, and the Jobs tab finds it again.")
        jobs.one(state.kept(state.STARTED))


def _audits() -> None:
    for why in cache.damaged_runs().values():
        st.warning(plain(f"An audit cannot be shown: {why}"), icon=":material/broken_image:")
    summaries = cache.all_runs()
    if not summaries:
        st.info("No finished audit yet.")
        return
    for summary in summaries:
        with st.container(border=True, horizontal=True, vertical_alignment="center"):
            about = tracks()[track].about if (track := cache.track_name_of(summary.id)) in tracks() else track
            axes = ", ".join(words.axis_name(axis) for axis in summary.axes)
            methods = ", ".join(words.method_name(method) for method in summary.methods)
            with st.container(gap="xxsmall"):
                st.text(title_of(summary.title, summary.axes))
                origin = "embedded demo" if summary.embedded else "your store"
                when = summary.created[:16].replace("T", " ")
                st.caption(plain(f"{capital(about)} · {when} · {origin} · {axes} · {methods}"))
            if st.button("Open", key=state.key_of("open", summary.id), icon=":material/dashboard:", width="content"):
                state.choose_run(summary.id)
                turn_to("overview")
    st.caption(f"Your store: {default_root()}")


def _models() -> None:
    for track in tracks().values():
        for shelf in track.shelves():
            st.subheader(shelf.title, anchor=False)
            panels.table(shelf.table)
            if shelf.note:
                st.caption(shelf.note)
    st.subheader("Prompts and texts", anchor=False)
    panels.table(_files())


def _files() -> pd.DataFrame:
    """Embedded data and what was uploaded before."""
    folders = [catalog.ASSETS / "demo-data", default_root() / "uploads"]
    found: list[Path] = [path for folder in folders if folder.is_dir() for path in sorted(folder.rglob("*.*"))]
    rows = [
        {"File": path.name, "Kilobytes": round(path.stat().st_size / 1024), "Where": str(path.parent)}
        for path in found
        if path.is_file() and path.suffix in (".csv", ".json", ".txt")
    ]
    return pd.DataFrame(rows, columns=["File", "Kilobytes", "Where"])


begin_app()
with boundary():
    page()
