"""What the last check of the form found wrong: said beside its field, in the field's name, until
the field changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import streamlit as st

from engine.audit.fields import Field, fields_of
from engine.audit.tracks import track_named
from engine.core.errors import Fault, RequestError
from engine.report import phrasing
from pages.shared import state
from pages.shared.safe import escaped, generated, plain


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
