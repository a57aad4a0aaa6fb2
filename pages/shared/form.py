"""The form of a new audit, drawn from the fields a track declares. Plain values out; the engine
says whether they hold.

Fields are drawn in the order they are declared, section by section: what is audited on the left,
how on the right, the rest in sections that unfold. No track is named here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import streamlit as st

from engine.audit.fields import HOW, WHAT, Field, fields_of
from engine.audit.tracks import tracks
from engine.core.errors import Fault
from pages.shared import refused, roots, state, widgets
from pages.shared.controls import segmented

FULL, QUICK = "Full", "Quick"
SMALL = ("integer", "number", "choice", "text", "flag")
"""Kinds of fields that share a line with others."""


def ask() -> tuple[dict[str, Any], list[Fault]]:
    """Draw the form; return the fields of a request as JSON-able values, and what could not be
    read."""
    about = {name: track.about for name, track in tracks().items()}
    return ask_of(
        segmented(
            "What shall be cut?", list(about), state.form_key("track"), about.__getitem__, bind=None
        )
    )


def ask_of(track: str) -> tuple[dict[str, Any], list[Fault]]:
    """The form of one track."""
    form = _Form(track, _preset(track))
    left, right = st.columns(2, gap="large")
    with left:
        form.draw(WHAT, per_line=2)
    with right:
        form.draw(HOW, per_line=2)
    for section in form.folded:
        mine = [field for field in form.fields if field.section == section]
        with st.expander(section, expanded=refused.is_any_of(mine, track)):
            form.draw(section, per_line=3)
    return {**form.asked, "track": track}, form.faults


def _preset(track: str) -> str:
    """With which values the form begins. What was typed under one preset waits there while the
    other is looked at."""
    key = state.form_key(f"{track}_preset")
    picked = segmented("How thorough?", [FULL, QUICK], key, bind=None)
    if picked == QUICK:
        st.caption(
            "A first look: fewer methods, levels or repetitions, so wide intervals. Every field can"
            " be changed."
        )
    return picked


class _Form:
    """What is declared, what was asked so far, and what could not be read."""

    def __init__(self, track: str, preset: str) -> None:
        declared = [field for field in fields_of(tracks()[track].part("request")) if field.section]
        self.quick = {
            field.name for field in declared if preset == QUICK and field.quick is not None
        }
        declared = [_quickly(field) if field.name in self.quick else field for field in declared]
        self.track, self.fields = track, sorted(declared, key=lambda field: field.last)
        self.usual = {field.name: field.default for field in declared if not field.required}
        self.asked: dict[str, Any] = {}
        self.faults: list[Fault] = []

    @property
    def folded(self) -> list[str]:
        """Sections that unfold, in the order of their first field."""
        return [
            section
            for section in dict.fromkeys(field.section for field in self.fields)
            if section not in (WHAT, HOW)
        ]

    def draw(self, section: str, per_line: int) -> None:
        """Every field of a section that is asked now, small ones side by side."""
        line: list[Any] = []
        mine = [field for field in self.fields if field.section == section]
        for field, after in zip(mine, [*mine[1:], None], strict=True):
            if field.shown and not field.shown(self._values):
                continue
            if _is_small(field) and (
                line or (after and _is_small(after))
            ):  # a small one alone takes the whole line
                line = line or list(st.columns(per_line, gap="medium"))
                with line.pop(0):
                    self._ask(field)
            else:
                line = []
                self._ask(field)

    @property
    def _values(self) -> dict[str, Any]:
        """What fields that build on others are told. A path that a page may not have read counts as
        not given: its columns are not offered either."""
        hidden = {
            name: self.usual.get(name, "")
            for name, value in self.asked.items()
            if roots.outside(value)
        }
        return {**self.usual, **self.asked, **hidden}

    def _ask(self, field: Field) -> None:
        key = state.form_key(
            f"{self.track}_{field.name}{'_quick' if field.name in self.quick else ''}"
        )
        value = widgets.draw(field, key, self._values, self.faults)
        self.asked[field.name] = list(value) if isinstance(value, tuple) else value
        refused.below(field, self.track, self.asked[field.name])
        if field.about and field.kind in SMALL and (said := field.about(value)):
            st.caption(said)


def _quickly(field: Field) -> Field:
    return replace(field, default=field.quick, starts=None)


def _is_small(field: Field) -> bool:
    return field.kind in SMALL and not (field.slider or (field.kind == "flag" and field.optional))


def labels_of(fields: Sequence[Field]) -> dict[str, str]:
    """What the form calls what faults are about, parts of recipes included."""
    found = {field.called: field.label for field in fields if field.label}
    found |= {part.called: part.label for field in fields for part in field.parts if part.label}
    for field in fields:
        if field.kind == "pairs" and field.of:
            found |= {f"{field.called} {one.name}": one.label for one in field.of({"model": ""})}
    return found
