"""The form of a new audit, drawn from the fields a track declares. Plain values out; the engine
says whether they hold.

Fields are drawn in the order they are declared, section by section: what is audited on the left,
how on the right, the rest in sections that unfold. No track is named here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import streamlit as st

from engine.audit.fields import HOW, WHAT, Field, fields_of
from engine.audit.tracks import track_named, tracks
from engine.core import words
from engine.core.errors import Fault, RequestError
from engine.report import phrasing
from engine.resident.client import ask
from pages.shared import cache, roots, state, widgets
from pages.shared.controls import segmented
from pages.shared.frame import boundary
from pages.shared.safe import escaped, generated, plain

FULL, QUICK = "Full", "Quick"
SMALL = ("integer", "number", "choice", "text", "flag")
"""Kinds of fields that share a line with others."""


def any_kind() -> tuple[dict[str, Any], list[Fault]]:
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
        with st.expander(section, expanded=is_any_of(mine, track)):
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
        below(field, self.track, self.asked[field.name])
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


# What the last check of the form found wrong: said beside its field, in the field's name, until
# the field changes.


@contextmanager
def remembered(request: Mapping[str, Any]) -> Iterator[None]:
    """Check a request inside. What is wrong with it is drawn anew, beside the fields; everything
    typed stays."""
    state.take(state.REFUSED)
    try:
        yield
    except RequestError as error:
        state.keep(state.REFUSED, (dict(request), error.faults))
        st.rerun()


def _last() -> tuple[Mapping[str, Any], Sequence[Fault]]:
    """The fields of the request that was checked last, and its faults; nothing where none was
    refused."""
    return state.kept(state.REFUSED) or ({}, ())


def is_any_of(fields: Sequence[Field], track: str) -> bool:
    """Whether the last check found something wrong with one of these fields: its fold must be open
    then."""
    request, faults = _last()
    every = fields_of(track_named(track).part("request"))
    owners = {_field_of(fault, every) for fault in faults}
    return request.get("track") == track and any(field.name in owners for field in fields)


def below(field: Field, track: str, value: Any) -> None:
    """What was wrong with a field that is still as it was when it was checked."""
    request, faults = _last()
    if request.get("track") != track or field.name not in request or request[field.name] != value:
        return
    fields = fields_of(track_named(track).part("request"))
    mine = [fault for fault in faults if _field_of(fault, fields) == field.name]
    if mine:
        lines = "".join(f"<p>{escaped(f'{fault.what} {fault.fix}')}</p>" for fault in mine)
        st.html(f'<div class="pa-fault"><strong>{escaped(_called(field))}</strong>{lines}</div>')
    _examples([one for fault in mine for one in fault.examples], field)


def _examples(examples: Sequence[tuple[str, str]], field: Field) -> None:
    """What a user brought that helps to answer, each with what is said of it; hidden until asked
    for."""
    if examples:
        shown = st.toggle("Show these items in clear", key=state.form_key(f"{field.name}_examples"))
        for text, said in examples:
            generated(text, "", said, shown)


def summary(request: Mapping[str, Any]) -> None:
    """Above the button: which fields to look at, and what belongs to no field in full."""
    checked, faults = _last()
    if not faults or checked.get("track") != request["track"]:
        return
    fields = {
        field.name: field for field in fields_of(track_named(request["track"]).part("request"))
    }
    owners = [_field_of(fault, list(fields.values())) for fault in faults]
    names = [
        name for name in dict.fromkeys(owners) if name and request.get(name) == checked.get(name)
    ]
    if names:
        what = f"{phrasing.count(len(names), 'field needs', 'fields need')} another value"
        listed = phrasing.listing(_called(fields[name]) for name in names)
        st.error(
            plain(f"{what}: {listed}. What is wrong stands below each."), icon=":material/error:"
        )
    for fault in (fault for fault, owner in zip(faults, owners, strict=True) if owner is None):
        st.error(plain(str(fault)), icon=":material/error:")


def _field_of(fault: Fault, fields: Sequence[Field]) -> str | None:
    """The field on screen whose name, or the name of a part of it, a fault carries; None for faults
    of no field."""
    shown = [field for field in fields if field.section]
    for field in shown:
        names = {
            field.label,
            field.called,
            field.called.replace("_", " "),
            *(part.label for part in field.parts),
        }
        names |= {part.called for part in field.parts}
        if fault.where in names - {""}:
            return field.name
    inside = [
        field for field in shown if fault.where.startswith((f"{field.called} ", f"{field.label} "))
    ]
    return inside[0].name if inside else None


def _called(field: Field) -> str:
    return (
        field.label
        or " and ".join(part.label for part in field.parts)
        or field.called.replace("_", " ")
    )


# How much the form asks for, in one sentence, and how long an audit like it took.


MOST = 0.95
"""Share of an audit that must have been computed when it was made, for its time to be told of."""


def line(request: Mapping[str, Any]) -> None:
    """What will be computed. No time is promised before anything ran: only what one audit of this
    kind took."""
    what = amount(request["track"], request)
    took = _took(request["track"])
    how_long = (
        f"{took} How long yours takes is measured as it runs, and stands beside the job."
        if took
        else ("How long it takes is measured as it runs, and stands beside the job.")
    )
    st.markdown(plain(f"This asks for {what} of {request.get('model') or 'a model'}. {how_long}"))


def amount(track: str, request: Mapping[str, Any]) -> str:
    """ "1 axis, 7 methods, 4 sparsities and 3 texts per prompt", from the fields that say how they
    are counted."""
    said = []
    for field in fields_of(track_named(track).part("request")):
        value = request.get(field.name)
        if field.counted and value is not None:
            said.append(
                phrasing.count(
                    len(value) if isinstance(value, list | tuple) else value, *field.counted
                )
            )
    return phrasing.listing(said)


def _took(track: str) -> str:
    """A finished audit of this kind, its size, and what computing it took where it was computed; ""
    without one."""
    for summary in cache.all_runs():
        if cache.track_name_of(summary.id) != track:
            continue
        meta = cache.open_run(summary.id).meta
        spent = meta.get("spent") or {}
        seconds = sum(spent.values())
        if seconds > 0 and _wholly(meta, spent):
            size = amount(track, meta["request"])
            return (
                f"An audit of {meta['model']['name']} with {size} took {words.duration(seconds)}"
                " where it was computed."
            )
    return ""


def _wholly(meta: Mapping[str, Any], spent: Mapping[str, float]) -> bool:
    """Whether nearly all of a run was computed when it was made; one that was resumed or shares
    parts of others took less than it says. Runs of earlier versions do not say it: there a stage
    that took no time was found finished.
    """
    return meta["computed"] >= MOST if "computed" in meta else min(spent.values()) > 0


# What the form's model is, said before anything is started: asked of the engine by a button.


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
