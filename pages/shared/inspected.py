"""What the form's model is, said before anything is started: asked of the engine by a button."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from engine.resident.client import ask
from pages.shared import roots, state
from pages.shared.frame import boundary
from pages.shared.safe import escaped

READ_BY = ("track", "model", "weights", "revision", "size", "device")
"""What of a request says which model it is, and how it is loaded."""


def button(request: Mapping[str, Any]) -> None:
    """The button; RequestError's faults stand where the answer would."""
    about = {name: request[name] for name in READ_BY if request.get(name) not in (None, "")}
    help_ = (
        "Reads the model's files, nothing is measured. One of an unknown family is loaded once, to"
        " prove where its heads are."
    )
    if st.button("What is this model?", icon=":material/search:", help=help_):
        state.keep(state.INSPECTED, None)
        with boundary(), st.spinner("Reading the model …"):
            roots.refuse_outside(about)
            state.keep(state.INSPECTED, (about, ask("inspect", about)["said"]))


def answer(request: Mapping[str, Any]) -> None:
    """What was said of it, while the form still names it."""
    about, said = state.kept(state.INSPECTED) or ({}, [])
    if said and all(request.get(name) == value for name, value in about.items()):
        st.html(f'<div class="pa-said">{"".join(f"<p>{escaped(one)}</p>" for one in said)}</div>')
