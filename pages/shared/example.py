"""One example: what was asked, and what both models made of it, hidden until asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st

from pages.shared import safe


def example(
    key: str,
    shown: bool,
    head: Callable[[bool], None],
    sides: Sequence[tuple[Any, ...]],
    narrow: bool = False,
) -> None:
    """A card with a switch of its own: `head` draws what was asked, and is told whether texts are
    shown. sides: of each model its text, name, note, and characters that stand out; beside each
    other or, where `narrow`, one below the other."""
    with st.container(border=True):
        top, switch = st.columns([5, 2] if narrow else [7, 2], vertical_alignment="top")
        with switch:
            shown = st.toggle("Show", key=key, disabled=shown) or shown
        with top:
            head(shown)
        boxes = [st.container(), st.container()] if narrow else st.columns(2, gap="medium")
        for box, (text, model, note, *marked) in zip(boxes, sides, strict=True):
            with box:
                safe.generated(text, model, note, shown, *marked)
