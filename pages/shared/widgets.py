"""One widget per kind of declared field, and per declared setting of a method.

Out of range is refused by the engine: with limits here, Streamlit would go on with the last number
that was in range.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import streamlit as st

from engine.audit.fields import Field, Offer, Values
from engine.core import words
from engine.core.errors import Fault
from engine.core.types import Setting, digest_of
from pages.shared import roots, state
from pages.shared.controls import capital
from pages.shared.safe import caption, plain

STAYS: dict[str, Any] = {"persist_state": "session"}
"""Of every field: what was typed is there after a look at another page."""
EMBEDDED, UPLOAD, PATH = "Embedded", "Upload", "Path on this machine"
NONE = "none"


def draw(field: Field, key: str, values: Values, faults: list[Fault]) -> Any:
    """The widget a declared field asks for; its value, JSON-able. What cannot be read goes to
    `faults`."""
    return _WIDGETS[field.kind](field, key, values, faults)


def setting(declared: Setting, key: str, start: Any = None) -> Any:
    """The widget a declared setting of a method asks for."""
    about = {"key": f"{key}_{declared.name}", "help": declared.help or None, **STAYS}
    label = declared.label or capital(declared.name.replace("_", " "))
    value = declared.default if start is None else start
    if declared.kind == "flag":
        return st.toggle(label, bool(value), **about)
    if declared.kind == "choice":
        return st.selectbox(label, declared.choices, declared.choices.index(value), **about)
    if declared.kind == "text":
        return st.text_input(label, value, **about).strip()
    if declared.kind == "integer":
        return int(st.number_input(label, value=int(value), **about))
    return float(st.number_input(label, value=float(value), format=_format(value), **about))


def changed(declared: Sequence[Setting], key: str, starts: Values | None = None) -> dict[str, Any]:
    """A line of settings; only what differs from the usual is asked for."""
    asked = [one for one in declared if not one.technical]
    if not asked:
        return {}
    with st.container(horizontal=True):
        found = {one.name: setting(one, key, (starts or {}).get(one.name)) for one in asked}
    return {one.name: found[one.name] for one in asked if found[one.name] != one.default}


def _label(field: Field, more: str = "") -> str:
    behind = ", ".join(filter(None, (field.unit, more)))
    return f"{field.label} ({behind})" if behind else field.label


def _common(field: Field, key: str) -> dict[str, Any]:
    return {"key": key, "help": field.hint or None, **STAYS}


def _named(field: Field, value: str) -> str:
    """A value as a person reads it, in a list that shows text as it is."""
    return capital(str(field.named(value) if field.named else words.choice_name(field.name, value)))


def _escaped(field: Field, value: str) -> str:
    """The same where Markdown is read: in buttons and headings."""
    return plain(_named(field, value))


def _keyed(key: str, options: Sequence[str]) -> str:
    """Other data has other options, so what was chosen of these is not carried over."""
    return state.key_of(key, digest_of(list(options))[:8])


def _typed(field: Field, key: str) -> str:
    placeholder = field.placeholder
    return st.text_input(_label(field), placeholder=placeholder, **_common(field, key)).strip()


def _picked(
    field: Field, key: str, options: Sequence[str], usual: Any, none: int | None, **more: Any
) -> Any:
    """One of the options by its name; the usual one first, where there is one, else `none`."""
    options = list(options)
    index = options.index(usual) if usual in options else none
    return st.selectbox(field.label, options, index, **more, **_common(field, key))


def _uploaded(field: Field, key: str, label: str, **more: Any) -> str | None:
    """Where the file is kept that was chosen in the browser."""
    kinds = list(field.upload or ()) or None
    file = st.file_uploader(label, type=kinds, key=f"{key}_file", **more)
    return str(roots.kept(file)) if file else None


def _text(field: Field, key: str, values: Values, _: list[Fault]) -> str | None:
    """Typed, or chosen where there is something to choose from."""
    if not field.offered:
        return _typed(field, key) or (None if field.optional else "")
    offer = field.offered(values)
    if len(offer.options) < 2:
        return next(iter(offer.options), None)
    key, named = _keyed(key, offer.options), partial(_named, field)
    return _picked(field, key, offer.options, offer.usual, 0, format_func=named)


def _source(field: Field, key: str, values: Values, _: list[Fault]) -> str | None:
    """A name of those known, or typed: another name, a path; or a file from the browser."""
    if field.offered is None:
        return _expanded(_typed(field, key)) or (None if field.optional else "")
    offer = field.offered(values)
    more = {"accept_new_options": True, "placeholder": field.placeholder or None}
    other = offer.usual in offer.options[1:]  # what is usual follows from other fields
    named = _keyed(key, [str(offer.usual)]) if other else key
    typed = _picked(field, named, offer.options, offer.usual, None, **more)
    uploaded = _uploaded(field, key, "Or a file of your own") if field.upload else None
    return uploaded or _expanded((typed or "").strip())


def _expanded(text: str) -> str:
    return str(Path(text).expanduser()) if text.startswith("~") else text


def _path(field: Field, key: str, _: Values, faults: list[Fault]) -> str | None:
    """None for the embedded data, else a path: typed, or where the upload was kept."""
    where = st.segmented_control(
        field.label,
        [EMBEDDED, UPLOAD, PATH],
        default=EMBEDDED,
        required=True,
        **_common(field, key),
    )
    if where == EMBEDDED:
        return None
    if where == UPLOAD:
        found = _uploaded(field, key, field.label, label_visibility="collapsed")
    else:
        typed = st.text_input(field.label, key=f"{key}_path", label_visibility="collapsed", **STAYS)
        found = _expanded(typed.strip())
    if not found:
        faults.append(Fault(field.label, "nothing is chosen.", "Upload a file or name a path."))
    return found or None


def _number(field: Field, key: str, _: Values, __: list[Fault]) -> Any:
    """A number, in percent where it is a share, or the word allowed in its place."""
    if field.word and st.toggle(field.word_label, key=f"{key}_word", **STAYS):
        return field.word
    label, common = _label(field), _common(field, key)
    scale = 100 if field.percent else 1
    if field.slider:
        low, high, step = (round(scale * end) for end in field.slider)
        return st.slider(label, low, high, round(scale * field.default), step, **common) / scale
    kind = int if field.kind == "integer" else float
    start: Any = None if field.default is None else kind(scale * field.default)
    form: dict[str, Any] = (
        {"step": 1} if kind is int else {"step": field.step, "format": _format(start)}
    )
    placeholder = field.placeholder
    found = st.number_input(label, value=start, placeholder=placeholder, **form, **common)
    if found is None:
        return None
    return round(found / scale, 6) if field.percent else kind(found)


def _format(value: float | None) -> str | None:
    """A number's format, with as many digits as a small number needs."""
    return "%.6f" if value and abs(value) < 0.01 else None


def _choice(field: Field, key: str, _: Values, __: list[Fault]) -> str:
    named = partial(_named, field)
    found = _picked(field, key, field.names, field.default, 0, format_func=named)
    word = words.gathered("CHOICES").get(field.name, {}).get(found)
    if word and not field.about:
        st.caption(word.definition)
    return found


def _flag(field: Field, key: str, _: Values, __: list[Fault]) -> bool | None:
    """On or off, and a third choice where leaving it open means something else; "--no-…" only ever
    forbids."""
    if field.optional and not field.flag.startswith("--no-"):
        named: Callable[[Any], str] | None = field.named
        meant = {named(value): value for value in (None, True, False)} if named else {}
        first = next(iter(meant))
        found = st.segmented_control(
            field.label, list(meant), default=first, required=True, **_common(field, key)
        )
        return meant[found]
    is_on = st.toggle(field.label, bool(field.default), **_common(field, key))
    return (False if is_on else None) if field.optional else is_on


def _names(field: Field, key: str, values: Values, _: list[Fault]) -> list[str]:
    """Buttons of which any number can be on; typed where the options are not known."""
    if not (field.offered or field.names):
        return [name.strip() for name in _typed(field, key).split(",") if name.strip()]
    offer = Offer(field.names, field.starts or field.default)
    if field.offered:
        offer = field.offered(values)
    first = (field.default if offer.usual is None else offer.usual) or ()
    chosen: list[str] = []
    for label, options in (offer.groups or {field.label: offer.options}).items():
        chosen += st.pills(
            label,
            list(options),
            default=[name for name in first if name in options],
            selection_mode="multi",
            wrap=True,
            format_func=partial(_escaped, field),
            **_common(field, _keyed(key, options)),
        )
    caption(offer.note)
    return _led(field, key, chosen) if field.lead else chosen


def _led(field: Field, key: str, chosen: list[str]) -> list[str]:
    """The chosen with the one in front that is picked to go first; names that may not go first stay
    behind it."""
    may = [name for name in chosen if not (field.check and field.check([name], {}))]
    first = may[:1]
    if len(may) > 1:
        named, key = partial(_named, field), _keyed(f"{key}_first", may)
        first = [st.selectbox(field.lead, may, format_func=named, key=key, **STAYS)]
    return [*first, *(name for name in chosen if name not in first)]


def _product(field: Field, key: str, values: Values, faults: list[Fault]) -> list[str]:
    found = []
    for part in field.parts:
        found.append(_names(part, f"{key}_{part.name}", values, faults))
        if part.about and (said := part.about(found[-1])):
            st.caption(said)
    return list(field.join(found)) if field.join else []


def _numbers(field: Field, key: str, _: Values, faults: list[Fault]) -> list[float]:
    """ "0, 5, 10" -> [0.0, 0.05, 0.1] where shares are asked in percent."""
    scale = 100 if field.percent else 1
    usual = ", ".join(f"{scale * value:g}" for value in field.default)
    label, placeholder = _label(field, "separated by commas"), field.placeholder
    text = st.text_input(label, usual, placeholder=placeholder, **_common(field, key))
    kind, example = "numbers", field.example.replace(",", ", ")
    if field.percent:
        kind, example = "percentages", usual
    found = []
    for part in text.replace(";", ",").split(","):
        part = part.strip().rstrip("%x×").strip()
        try:
            if part:
                found.append(round(float(part) / scale, 6) if field.percent else float(part))
        except ValueError:
            mend = f"Write {kind} such as {example}."
            faults.append(Fault(field.label, f"{part!r} is not a number.", mend))
    return found


def _settings(field: Field, key: str, values: Values, _: list[Fault]) -> dict[str, Any]:
    return changed((field.of(values) if field.of else None) or (), key)


def _settings_per_method(field: Field, key: str, values: Values, _: list[Fault]) -> dict[str, Any]:
    """What the chosen methods declare to be set."""
    found, known = {}, field.of(values) if field.of else {}
    for name in field.chosen(values) if field.chosen else ():
        said = field.about(name) if field.about else ""
        if not (said or any(not one.technical for one in known[name])):
            continue
        st.markdown(f"**{_escaped(field, name)}**")
        if said:
            st.caption(said)
        found[name] = changed(known[name], f"{key}_{name}")
    return {name: given for name, given in found.items() if given}


def _pairs(field: Field, key: str, values: Values, _: list[Fault]) -> dict[str, Any] | None:
    """A recipe; where there need not be one, a switch comes first."""
    if field.optional and not st.toggle(field.label, **_common(field, key)):
        return None
    if not field.optional:
        st.markdown(f"**{field.label}**")
    return changed(field.of(values) if field.of else (), key, field.starts)


def _changes(field: Field, key: str, values: Values, _: list[Fault]) -> list[dict[str, Any]]:
    """One thing by name, and its settings. Those whose choices are the data's own are typed; empty
    means the usual."""
    known = field.of(values) if field.of else {}
    named = partial(_named, field)
    name = _picked(field, key, [NONE, *known], NONE, 0, format_func=named)
    if name == NONE:
        return []
    given: dict[str, str] = {}
    rest: list[Setting] = []
    for one in known[name].settings:
        if one.kind != "choice" or one.choices:
            rest.append(one)
            continue
        typed = st.text_input(
            capital(one.name),
            key=f"{key}_{name}_{one.name}",
            help=one.help,
            placeholder="usual",
            **STAYS,
        ).strip()
        given |= {one.name: typed} if typed else {}
    return [{"name": name, **given, **changed(rest, f"{key}_{name}")}]


_WIDGETS: Mapping[str, Callable[[Field, str, Values, list[Fault]], Any]] = {
    "text": _text,
    "path": _path,
    "source": _source,
    "integer": _number,
    "number": _number,
    "flag": _flag,
    "choice": _choice,
    "names": _names,
    "product": _product,
    "numbers": _numbers,
    "settings": _settings,
    "settings per method": _settings_per_method,
    "pairs": _pairs,
    "changes": _changes,
}
