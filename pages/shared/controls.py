"""The choices every reading page shares: axis, method, sparsity. In the address; they survive page switches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import streamlit as st

from engine import words
from engine.export import say
from engine.export.panels import lookup
from engine.export.panels.base import Choice
from engine.store.runs import Run
from engine.types import READINGS
from pages.shared import frame, state


def is_dark() -> bool:
    """Whether the browser shows the dark theme (light while unknown)."""
    return st.context.theme.type == "dark"


def capital(text: str) -> str:
    """First letter large, the rest as it is."""
    return text[:1].upper() + text[1:]


def axis_label(axis: str) -> str:
    return capital(words.axis_name(axis))


def method_label(method: str) -> str:
    return capital(words.method_name(method))


def select(label: str, options: Sequence[Any], key: str, named: Callable[[Any], str] = str, **more: Any) -> Any:
    """A select box that lives in the address and is remembered on the next page."""
    options = list(options)
    state.restore(key, options)
    return state.keep(key, st.selectbox(label, options, format_func=named, key=key, bind=state.BOUND, **more))


def segmented(label: str, options: Sequence[Any], key: str, named: Callable[[Any], str] = str, **more: Any) -> Any:
    """A row of buttons of which one is always on; in the address, remembered."""
    options = list(options)
    state.restore(key, options)
    more = {"default": options[0], "required": True, "bind": state.BOUND, **more}
    picked = st.segmented_control(label, options, format_func=named, key=key, **more)
    return state.keep(key, picked if picked in options else options[0])


def choose(run: Run) -> Choice:
    """Draw the strip of choices and return what is chosen."""
    with st.container(key=state.CHOICE_STRIP):
        left, middle, right = st.columns([3, 3, 6], gap="medium", vertical_alignment="top")
        with left:
            axis = select("Axis", run.meta["request"]["axes"], state.AXIS, axis_label)
        with middle:
            offered = lookup.methods(run, axis)
            method = select("Method", offered, state.METHOD, method_label) if offered else "dense"
            missing = [method_label(name) for name in lookup.methods(run) if name not in offered]
            if missing:
                st.caption(f"Not built for this axis, whose heads were not ranked: {', '.join(missing)}.")
        with right:
            sparsity = _slider(run, method, axis)
    reading = run.meta["request"].get("reading", READINGS[0])
    return Choice(method=method, axis=axis, sparsity=sparsity, reading=reading, dark=is_dark())


def _slider(run: Run, method: str, axis: str) -> float:
    """The sparsity slider over finished variants."""
    options = lookup.sparsities(run, method, axis)
    if len(options) < 2:
        st.caption("No pruned variant of this method is finished for this axis.")
        return 0.0
    state.restore(state.SPARSITY, options)
    value = st.select_slider(
        "Sparsity (share of heads cut)",
        options,
        value=_first_look(options),
        format_func=say.percent,
        key=state.SPARSITY,
        bind=state.BOUND,
        help="Every step is a finished variant; 0 % is the model as it is. The Library starts a new one.",
    )
    return state.keep(state.SPARSITY, value)


def _first_look(options: list[float]) -> float:
    """Where the slider starts: the largest finished sparsity up to 20 %."""
    return max((share for share in options if share <= 0.2 + 1e-9), default=options[-1])


def neighbours(run: Run, choice: Choice) -> list[Choice]:
    """The same choice at every other finished sparsity, the nearest first: where the slider may go next."""
    others = [share for share in lookup.sparsities(run, choice.method, choice.axis) if share != choice.sparsity]
    others.sort(key=lambda share: abs(share - choice.sparsity))
    return [replace(choice, sparsity=share) for share in others]


def offer_missing(run: Run, choice: Choice) -> None:
    """Say which sparsities of the request are not finished for this method, and where to ask for more."""
    finished = lookup.sparsities(run, choice.method, choice.axis)
    asked = [float(share) for share in run.meta["request"]["sparsities"]]
    missing = [say.percent(share) for share in asked if not any(abs(share - have) < 1e-9 for have in finished)]
    if missing:
        st.caption(f"Not finished for this method: {', '.join(missing)}.")
    frame.link("library", "Ask for another sparsity, axis or method")
