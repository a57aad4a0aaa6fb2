"""How it was measured: every note and caveat of the audit, once."""

from __future__ import annotations

import streamlit as st

from engine.report.tracks import track_of
from pages.shared.frame import begin_app, boundary, heading, need_run


def page() -> None:
    heading("measured", notes=False)
    run = need_run()
    for title, told in (
        ("What must be known about this audit", run.meta.get("warnings") or []),
        ("How numbers are made", track_of(run).notes(run)),
        ("What it cannot say", track_of(run).limits(run)),
    ):
        if told:
            st.header(title, anchor=False)
            for text in told:
                st.text(text)


begin_app()
with boundary():
    page()
