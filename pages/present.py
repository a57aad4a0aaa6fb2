"""Present: the audit in a few steps, one sentence and one picture each."""

from __future__ import annotations

import streamlit as st

from engine.report.charts.headline import headline
from engine.report.tracks import track_of
from pages.shared import panels
from pages.shared.cache import made
from pages.shared.controls import choose
from pages.shared.frame import begin_app, boundary, heading, need_run
from pages.shared.safe import escaped


def page() -> None:
    heading("present", notes=False)
    run = need_run()
    choice = choose(run)
    st.html(f'<p class="pa-lead">{escaped(made(run, headline, choice).sentence)}</p>')
    who_pays = track_of(run).overview.beside[0]
    panels.draw(made(run, who_pays, choice), who_pays.__name__)


begin_app()
with boundary():
    page()
