"""Audits: every finished one that is here; open one."""

from __future__ import annotations

import streamlit as st

from engine.core import words
from engine.report.tracks import tracks
from engine.store.runs import default_root
from pages.shared import cache, jobs, state
from pages.shared.controls import capital
from pages.shared.frame import begin_app, boundary, heading, title_of
from pages.shared.safe import plain


def page() -> None:
    heading("audits", notes=False)
    _audits()


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
            st.button(
                "Open", key=state.key_of("open", summary.id), icon=":material/dashboard:", width="content",
                on_click=jobs.open_run, args=(summary.id,),
            )  # fmt: skip
    st.caption(f"Your store: {default_root()}")


begin_app()
with boundary():
    page()
