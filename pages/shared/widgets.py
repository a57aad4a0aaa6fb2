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
from pages.shared.safe import plain

EMBEDDED, UPLOAD, PATH = "Embedded", "Upload", "Path on this machine"
NONE = "none"


def draw(field: Field, key: str, values: Values, faults: list[Fault]) -> Any:
    """The widget a declared field asks for; its value, JSON-able. What cannot be read goes to
    `faults`."""
    return _WIDGETS[field.kind](field, key, values, faults)


def setting(declared: Setting, key: str, start: Any = None) -> Any:
    """The widget a declared setting of a method asks for."""
    about: dict[str, Any] = {"key": f"{key}_{declared.name}", "help": declared.help or None}
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


def changed(
    declared: Sequence[Setting], key: str, starts: Mapping[str, Any] | None = None
) -> dict[str, Any]:
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
    return {"key": key, "help": field.hint or None}


def _named(field: Field, value: str) -> str:
    """A value as a person reads it, in a list that shows text as it is."""
    return capital(str(field.named(value) if field.named else words.choice_name(field.name, value)))


def _escaped(field: Field, value: str) -> str:
    """The same where Markdown is read: in buttons and headings."""
    return plain(_named(field, value))


def _keyed(key: str, options: Sequence[str]) -> str:
    """Other data has other options, so what was chosen of these is not carried over."""
    return state.key_of(key, digest_of(list(options))[:8])


def _text(field: Field, key: str, values: Values, _: list[Fault]) -> str | None:
    """Typed, or chosen where there is something to choose from."""
    if field.offered:
        return _chosen(field, key, field.offered(values))
    typed = st.text_input(
        _label(field), key=key, placeholder=field.placeholder, help=field.hint or None
    ).strip()
    return typed or (None if field.optional else "")


def _chosen(field: Field, key: str, offer: Offer) -> str | None:
    if len(offer.options) < 2:
        return next(iter(offer.options), None)
    options = list(offer.options)
    index = options.index(offer.usual) if offer.usual in options else 0
    return st.selectbox(
        field.label,
        options,
        index,
        format_func=partial(_named, field),
        key=_keyed(key, options),
        help=field.hint or None,
    )


def _source(field: Field, key: str, values: Values, faults: list[Fault]) -> str | None:
    """A name of those known, or typed: another name, a path; or a file from the browser."""
    if field.offered is None:
        return _expanded(_text(field, key, values, faults))
    offer = field.offered(values)
    options = list(offer.options)
    index = options.index(offer.usual) if offer.usual in options else None
    typed = st.selectbox(
        field.label,
        options,
        index,
        accept_new_options=True,
        placeholder=field.placeholder or None,
        **_common(field, key),
    )
    if field.upload:
        file = st.file_uploader("Or a file of your own", type=list(field.upload), key=f"{key}_file")
        if file:
            return str(roots.kept(file))
    return _expanded((typed or "").strip()) or ""


def _expanded(text: str | None) -> str | None:
    return str(Path(text).expanduser()) if text and text.startswith("~") else text


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
        kinds = list(field.upload or ()) or None
        file = st.file_uploader(
            field.label, type=kinds, key=f"{key}_file", label_visibility="collapsed"
        )
        if file:
            return str(roots.kept(file))
    elif typed := st.text_input(
        field.label, key=f"{key}_path", label_visibility="collapsed"
    ).strip():
        return str(Path(typed).expanduser())
    faults.append(Fault(field.label, "nothing is chosen.", "Upload a file or name a path."))
    return None


def _number(field: Field, key: str, _: Values, __: list[Fault]) -> Any:
    """A number, in percent where it is a share, or the word allowed in its place."""
    if field.word and st.toggle(field.word_label, key=f"{key}_word"):
        return field.word
    scale = 100 if field.percent else 1
    if field.slider:
        low, high, step = (round(scale * end) for end in field.slider)
        return (
            st.slider(
                _label(field), low, high, round(scale * field.default), step, **_common(field, key)
            )
            / scale
        )
    kind = int if field.kind == "integer" else float
    start = None if field.default is None else kind(scale * field.default)
    more = {"step": 1} if kind is int else {"step": field.step, "format": _format(start)}
    more |= {"value": start, **_common(field, key)}
    found = st.number_input(_label(field), placeholder=field.placeholder, **more)
    if found is None:
        return None
    return round(found / scale, 6) if field.percent else kind(found)


def _format(value: float | None) -> str | None:
    """A number's format, with as many digits as a small number needs."""
    return "%.6f" if value and abs(value) < 0.01 else None


def _choice(field: Field, key: str, _: Values, __: list[Fault]) -> str:
    names = list(field.names)
    found = st.selectbox(
        field.label,
        names,
        names.index(field.default),
        format_func=partial(_named, field),
        **_common(field, key),
    )
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
        typed = st.text_input(
            field.label, key=key, placeholder=field.placeholder, help=field.hint or None
        )
        return [name.strip() for name in typed.split(",") if name.strip()]
    offer = (
        field.offered(values)
        if field.offered
        else Offer(field.names, field.starts or field.default)
    )
    chosen: list[str] = []
    for label, options in (offer.groups or {field.label: offer.options}).items():
        chosen_first = field.default if offer.usual is None else offer.usual
        usual = [name for name in chosen_first or () if name in options]
        chosen += (
            st.pills(
                label,
                list(options),
                default=usual,
                selection_mode="multi",
                wrap=True,
                format_func=partial(_escaped, field),
                key=_keyed(key, options),
                help=field.hint or None,
            )
            or []
        )
    if offer.note:
        st.caption(plain(offer.note))
    return _led(field, key, chosen) if field.lead else chosen


def _led(field: Field, key: str, chosen: list[str]) -> list[str]:
    """The chosen with the one in front that is picked to go first; names that may not go first stay
    behind it."""
    may = [name for name in chosen if not (field.check and field.check([name], {}))]
    first = may[0] if may else None
    if len(may) > 1:
        first = st.selectbox(
            field.lead, may, format_func=partial(_named, field), key=_keyed(f"{key}_first", may)
        )
    return [*([first] if first else []), *(name for name in chosen if name != first)]


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
    text = st.text_input(
        _label(field, "separated by commas"),
        usual,
        placeholder=field.placeholder,
        **_common(field, key),
    )
    found = []
    for part in (part.strip().rstrip("%x×").strip() for part in text.replace(";", ",").split(",")):
        try:
            found += (
                [round(float(part) / scale, 6) if field.percent else float(part)] if part else []
            )
        except ValueError:
            kind, example = (
                ("percentages", usual)
                if field.percent
                else ("numbers", field.example.replace(",", ", "))
            )
            faults.append(
                Fault(field.label, f"{part!r} is not a number.", f"Write {kind} such as {example}.")
            )
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
    if field.optional and not st.toggle(field.label, key=key, help=field.hint or None):
        return None
    if not field.optional:
        st.markdown(f"**{field.label}**")
    return changed(field.of(values) if field.of else (), key, field.starts)


def _changes(field: Field, key: str, values: Values, _: list[Fault]) -> list[dict[str, Any]]:
    """One thing by name, and its settings. Those whose choices are the data's own are typed; empty
    means the usual."""
    known = field.of(values) if field.of else {}
    name = st.selectbox(
        field.label, [NONE, *known], format_func=partial(_named, field), **_common(field, key)
    )
    if name == NONE:
        return []
    typed = [one for one in known[name].settings if one.kind == "choice" and not one.choices]
    given = {
        one.name: (
            st.text_input(
                capital(one.name),
                key=f"{key}_{name}_{one.name}",
                help=one.help,
                placeholder="usual",
            ).strip()
        )
        for one in typed
    }
    rest = changed([one for one in known[name].settings if one not in typed], f"{key}_{name}")
    return [{"name": name, **{one: value for one, value in given.items() if value}, **rest}]


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
