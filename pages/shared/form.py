"""The form of a new audit, drawn from the fields a track declares. Plain values out; the engine
says whether they hold.

Fields are drawn in the order they are declared, section by section: what is audited on the left,
how on the right, the rest in sections that unfold. No track is named here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import streamlit as st

from engine.audit.fields import HOW, WHAT, Field, fields_of
from engine.audit.fitting import scales_of
from engine.audit.tracks import track_named, tracks
from engine.core import words
from engine.core.errors import Fault, RequestError
from engine.core.types import Values, digest_of
from engine.data.tables import USUAL, preview
from engine.report import phrasing
from engine.resident.client import ask
from pages.shared import cache, roots, state, widgets
from pages.shared.controls import fold, segmented
from pages.shared.safe import boundary, escaped, generated, plain, show_errors

FULL, QUICK = "Full", "Quick"
SMALL = ("integer", "number", "choice", "text", "flag")
"""Kinds of fields that share a line with others."""


def any_kind() -> tuple[dict[str, Any], list[Fault]]:
    """Draw the form; return the fields of a request as JSON-able values, and what could not be
    read."""
    about = {name: track.about for name, track in tracks().items()}
    return ask_of(segmented("What should be cut?", about, state.form_key("track"), bind=None))


def ask_of(track: str) -> tuple[dict[str, Any], list[Fault]]:
    """The form of one track. What was typed under one preset waits there while the other is looked
    at."""
    key = state.form_key(f"{track}_preset")
    preset = segmented("How thorough?", [FULL, QUICK], key, bind=None)
    if preset == QUICK:
        st.caption(
            "A first look: fewer methods, levels or repetitions, so wide intervals. Every field can"
            " be changed."
        )
    form = _Form(track, preset)
    left, right = st.columns(2, gap="large")
    with left:
        form.draw(WHAT, per_line=2)
    with right:
        form.draw(HOW, per_line=2)
    wrong = {owner for owner, _ in _refused(track)[1]}
    for section in dict.fromkeys(field.section for field in form.fields):
        if section not in (WHAT, HOW):
            names = {field.name for field in form.fields if field.section == section}
            with st.expander(section, expanded=bool(names & wrong)):
                form.draw(section, per_line=3)
    return {**form.asked, "track": track}, form.faults


class _Form:
    """What is declared, what was asked so far, and what could not be read."""

    def __init__(self, track: str, preset: str) -> None:
        declared = [field for field in fields_of(tracks()[track].part("request")) if field.section]
        quick = {one.name: one.quick for one in declared if one.quick is not None}
        self.starts = {**(quick if preset == QUICK else {}), **state.filled(track)}
        declared = [
            replace(field, default=self.starts[field.name], starts=None)
            if field.name in self.starts
            else field
            for field in declared
        ]
        self.track, self.fields = track, sorted(declared, key=lambda field: field.last)
        self.usual = {field.name: field.default for field in declared if not field.required}
        self.asked: dict[str, Any] = {}
        self.faults: list[Fault] = []

    def draw(self, section: str, per_line: int) -> None:
        """Every field of a section that is asked now, small ones side by side."""
        line: list[Any] = []
        wrong = {owner for owner, _ in _refused(self.track)[1]}  # nobody mends what is not there
        mine = [field for field in self.fields if field.section == section]
        for field, after in zip(mine, [*mine[1:], None], strict=True):
            if field.shown and field.name not in wrong and not field.shown(self._values):
                continue
            # A small one alone takes the whole line.
            if _is_small(field) and (line or (after and _is_small(after))):
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
        start = self.starts.get(field.name)
        other = "" if start is None else f"_{digest_of([start])[:8]}"  # drawn anew
        key = state.form_key(f"{self.track}_{field.name}{other}")
        value = widgets.draw(field, key, self._values, self.faults)
        self.asked[field.name] = list(value) if isinstance(value, tuple) else value
        _file(field, key, value)
        _below(field, self.track, self.asked[field.name])
        if field.about and field.kind in SMALL and (said := field.about(value)):
            st.caption(said)


def _file(field: Field, key: str, value: Any) -> None:
    """What the user's own file holds, or what is wrong with it, as soon as it is named."""
    if not field.reads or not str(value).startswith("/") or roots.outside(value):
        return
    path = Path(value)
    try:
        field.reads(value)
        if path.suffix.lower() not in USUAL:
            return
        name = ("preview", value, path.stat().st_mtime_ns)
        first, said = cache.MEMORY.get(name, lambda: preview(path))
    except (OSError, RequestError) as error:
        _say_faults(field, error.faults if isinstance(error, RequestError) else ())
        return
    st.caption("  \n".join(map(plain, said)))
    fold(
        "First rows",
        f"{key}_first",
        lambda: st.dataframe(first, hide_index=True),
        type="compact",
    )


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

Owned = Sequence[tuple[str | None, Fault]]
"""Faults, each with the name of the field that it is about; None for one that is of no field."""


@contextmanager
def remembered(request: Values) -> Iterator[None]:
    """Check a request inside. What is wrong with it is drawn anew, beside the fields; everything
    typed stays."""
    state.take(state.REFUSED)
    try:
        yield
    except RequestError as error:
        fields = fields_of(track_named(request["track"]).part("request"))
        owned = [(owner_of(fault, fields), fault) for fault in error.faults]
        state.keep(state.REFUSED, (dict(request), owned))
        st.rerun()


def owner_of(fault: Fault, fields: Sequence[Field]) -> str | None:
    """The field on screen whose name, or the name of a part of it, a fault carries."""
    shown = [field for field in fields if field.section]
    for field in shown:
        parts = [name for part in field.parts for name in (part.label, part.called)]
        names = {field.label, field.called, field.called.replace("_", " "), *parts}
        if fault.where in names - {""}:
            return field.name
    for field in shown:
        if fault.where.startswith((f"{field.called} ", f"{field.label} ")):
            return field.name
    return None


def _refused(track: str) -> tuple[Values, Owned]:
    """The fields of the request that was checked last, and its faults; nothing where none of this
    track was refused."""
    request, owned = state.kept(state.REFUSED, ({}, ()))
    return (request, owned) if request.get("track") == track else ({}, ())


def _is_as_checked(checked: Values, name: str, value: Any) -> bool:
    """Whether a field says what it did when it was checked; one not shown said nothing."""
    return (checked.get(name) or None) == (value or None)


def _below(field: Field, track: str, value: Any) -> None:
    """What was wrong with a field that is still as it was when it was checked; what a user brought
    that helps to answer stays hidden until asked for."""
    request, owned = _refused(track)
    mine = [fault for owner, fault in owned if owner == field.name]
    if not (mine and _is_as_checked(request, field.name, value)):
        return
    _say_faults(field, mine)
    if examples := [one for fault in mine for one in fault.examples]:
        key = state.form_key(f"{field.name}_examples")
        shown = st.toggle("Show these items in clear", key=key, **widgets.STAYS)
        for text, said in examples:
            generated(text, "", said, shown)


def _say_faults(field: Field, faults: Iterable[Fault]) -> None:
    lines = "".join(f"<p>{escaped(f'{fault.what} {fault.fix}')}</p>" for fault in faults)
    st.html(f'<div class="pa-fault"><strong>{escaped(_called(field))}</strong>{lines}</div>')


def summary_of_faults(request: Values) -> None:
    """Above the button: which fields to look at, and what belongs to no field in full."""
    checked, owned = _refused(request["track"])
    fields = fields_of(track_named(request["track"]).part("request"))
    wrong = {
        owner for owner, _ in owned if owner and _is_as_checked(checked, owner, request.get(owner))
    }
    if wrong:
        what = f"{phrasing.count(len(wrong), 'field needs', 'fields need')} another value"
        listed = phrasing.listing(_called(field) for field in fields if field.name in wrong)
        show_errors([f"{what}: {listed}. Look there for what is wrong."])
    show_errors(str(fault) for owner, fault in owned if owner is None)


def _called(field: Field) -> str:
    parts = " and ".join(part.label for part in field.parts)
    return field.label or parts or field.called.replace("_", " ")


# How much the form asks for, in one sentence, and how long that takes once it was tried.


LIMIT = 1800.0
"""Seconds that a request is made to fit into where it takes longer."""


def amount_line(request: Values) -> None:
    """What will be computed, and how long that takes where it was tried."""
    what, model = amount(request["track"], request), request.get("model") or "a model"
    took = _tried(request)
    st.markdown(plain(f"This asks for {what} of {model}. {took.get('said', '')}".strip()))


def forecast_button(request: Values) -> None:
    """The button that tries the request, and where it takes long the one that makes it fit;
    RequestError's faults stand where the answer would."""
    help_text = "Computes for 20 seconds. What it finishes is kept for the audit."
    if st.button("How long will it take?", icon=":material/timer:", help=help_text):
        with boundary(), st.spinner("Trying it for 20 seconds …"):
            roots.refuse_outside(request)
            found = ask("forecast", {"request": request})["seconds"]
            said = "It is too early to tell how long it takes."
            if found is not None:
                said = f"On this machine it takes about {words.duration(found)}, as tried just now."
            state.keep(state.FORECAST, (dict(request), {"seconds": found, "said": said}))
        if _tried(request):
            st.rerun()
    scaled = scales_of(tracks()[request["track"]].part("request"))
    if not scaled or (_tried(request).get("seconds") or 0.0) <= LIMIT:
        return
    help_text = "Tries smaller audits for some minutes, and fills in what fits."
    label = f"Fit into {words.duration(LIMIT)}"
    if st.button(label, icon=":material/compress:", help=help_text):
        with boundary(), st.spinner("Trying smaller audits …"), remembered(request):
            found = ask("forecast", {"request": request, "within": LIMIT})
            state.keep(state.FORECAST, ({**request, **found["changed"]}, found))
            state.fill_form(request["track"], found["changed"])
            st.rerun()


def _tried(request: Values) -> Values:
    """What trying just this request said; nothing where another was tried."""
    tried, found = state.kept(state.FORECAST) or (None, {})
    return found if tried == request else {}


def amount(track: str, request: Values) -> str:
    """ "1 axis, 7 methods, 4 sparsities and 3 texts per prompt", from the fields that say how they
    are counted."""
    said = []
    for field in fields_of(track_named(track).part("request")):
        value = request.get(field.name)
        if field.counted and value is not None:
            number = len(value) if isinstance(value, list | tuple) else value
            said.append(phrasing.count(number, *field.counted))
    return phrasing.listing(said)


# What the form's model is, said before anything is started: asked of the engine by a button.

READ_BY = ("track", "model", "weights", "revision", "size", "device")
"""What of a request says which model it is, and how it is loaded."""


def inspect_button(request: Values) -> None:
    """The button; RequestError's faults stand where the answer would."""
    about = {name: request[name] for name in READ_BY if request.get(name) not in (None, "")}
    help_text = (
        "Reads the model's files, nothing is measured. One of an unknown family is loaded once, to"
        " prove where its heads are."
    )
    if st.button("What is this model?", icon=":material/search:", help=help_text):
        state.keep(state.INSPECTED, None)
        with boundary(), st.spinner("Reading the model …"):
            roots.refuse_outside(about)
            state.keep(state.INSPECTED, (about, ask("inspect", about)["said"]))


def inspected(request: Values) -> None:
    """What was said of it, while the form still names it."""
    about, said = state.kept(state.INSPECTED) or ({}, [])
    if said and all(request.get(name) == value for name, value in about.items()):
        st.html(f'<div class="pa-said">{"".join(f"<p>{escaped(one)}</p>" for one in said)}</div>')
