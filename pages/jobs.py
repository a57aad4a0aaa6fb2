"""Jobs: audits that run, wait or have ended; cancel, resume, open. Below them the engine: what it
keeps loaded, and what it answers."""

from __future__ import annotations

import streamlit as st

from engine.cli.engine import told
from engine.core.text import visible
from engine.resident import client
from pages.shared import jobs
from pages.shared.frame import draw_page, heading
from pages.shared.safe import boundary, header

EVERY = 3.0
"""Seconds between two looks at the engine."""


def page() -> None:
    heading("jobs", notes=False)
    jobs.watch()
    header("Engine")
    _engine()


@st.fragment(run_every=EVERY)
def _engine() -> None:
    with boundary():
        st.text(visible("\n".join(told(client.status(jobs.store())))))


draw_page(page)
