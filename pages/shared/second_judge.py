"""Other judges of an audit's texts: what they say, and a way to ask one more."""

from __future__ import annotations

import streamlit as st

from engine.audit.growth import Growth
from engine.report.charts.panel import Choice
from engine.report.tracks import track_of
from pages.shared import panels, roots, state
from pages.shared.cache import KeptRun, made
from pages.shared.frame import boundary
from pages.shared.measuring import measure

ABOUT = (
    "Any Detoxify judge by name, or a folder or hub name of a text classifier with safetensors"
    " weights, of which you say what label is harm. It reads the texts that this audit holds; none"
    " is drawn again."
)


def other_judges(run: KeptRun, choice: Choice) -> None:
    """The first chart, the others folded, and below them the form; nothing where the audit holds no
    texts."""
    charts = track_of(run).judged
    if not charts or not run.has("texts"):
        return
    st.header("Other judges", anchor=False)
    first, *more = charts
    panels.draw(made(run, first, choice))
    if run.has("opinions"):
        panels.fold(
            "What each judge says of the groups' names alone",
            [(run, make, choice) for make in more],
        )
    with st.expander("Ask another judge", icon=":material/gavel:"):
        _form(run, choice)


def _form(run: KeptRun, choice: Choice) -> None:
    st.markdown(ABOUT)
    left, right = st.columns(2)
    with left:
        judge = st.text_input("Judge", key=state.JUDGE, placeholder="Folder or hub name")
    with right:
        label = st.text_input(
            "Its label that is harm", key=state.JUDGE_LABEL, placeholder="Only of a classifier"
        )
    everywhere = st.toggle(
        "On every axis", key=state.JUDGE_AXES, help="Else on the axis that is chosen above."
    )
    if not judge.strip():
        return
    with boundary():
        roots.refuse_outside({"judge": judge.strip()})
        axes = tuple(run.meta["request"]["axes"]) if everywhere else (choice.measured,)
        grown = Growth(
            track=track_of(run).name,
            run=run.id,
            axis=choice.measured,
            axes=axes,
            judge=judge.strip(),
            label=label.strip(),
        )
        measure(grown, "Ask this judge")
