"""What an audit can be asked, declared once: each attribute of a request says its kind, range,
words and place.

From this come the command-line option, the check with its fault, the form's widget, what counts for
the run's id, and the row of the documents. `asked` declares, `fields_of` reads the declaration.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeGuard, TypeVar

from engine.core.errors import Fault, RequestError, unknown
from engine.core.files import is_special, is_too_long
from engine.core.types import Kind, Setting, Values, setting_faults

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

RequestT = TypeVar("RequestT", bound="DataclassInstance")
T = TypeVar("T")
WHAT, HOW = "What is audited", "How"
"""Sections of the form that are open; all others fold."""


@dataclass(frozen=True)
class Offer:
    """What the form offers for a field, now that the fields before it are known.

    usual: what is chosen at first; of names, None for the field's own default. note: a sentence
    below. groups: the options by label, where there are kinds of them.
    """

    options: Sequence[str]
    usual: Sequence[str] | str | None = ()
    note: str = ""
    groups: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)


@dataclass(frozen=True)
class Scale:
    """How much is measured can be made smaller to fit a time (`engine.audit.fitting`).

    fewest, most: what an audit needs at least and how many there are, asked of the request. word:
    what is counted, in the plural. enough: below it little can be told. is_repeat: repeats the
    others, and falls to its fewest before those fall below what is enough.
    """

    fewest: Callable[[Any], int]
    most: Callable[[Any], int]
    word: str
    enough: int = 0
    is_repeat: bool = False


@dataclass(frozen=True)
class Field(Setting):
    """One declared attribute of a request. What is None or empty is the usual for its kind.

    optional: None is allowed. word: a word allowed in place of a number. known: the names allowed,
    where they must be found first. some: at least one must be named.

    option: the command line's, "" for none, which the name gives where it is None; metavar, help:
    its words. commas: names are also separated by commas. parts, join: where several options, or
    lists of the form, make up the value.
    read: what reads the words, where the kind does not say. where: what faults call it. example: of
    a list of numbers.
    usual: the value where neither the words nor a default say one. of: the settings that are
    declared, by method.
    check: faults beyond the kind's. counts: "value" in the run's id, "content" of what lies there
    instead, "no".
    later: it came later, so at its default it is left out of ids, and runs from before are still
    found.

    section: where the form asks for it, "" nowhere; last: after the others there. hint: its
    tooltip. unit: behind the label. percent: a share, asked in percent. named: a value in words.
    offered: see `Offer`. shown: whether it is asked. about: a sentence below, for the value. lead:
    label of the choice which of the names comes first. starts: what the form begins with, where
    that is not the default. chosen: for which methods settings are asked.
    reads: called with the path of a user's own file once it is named; raises what is wrong with it.
    accepted: called once the request holds up. quick: what the form's quick preset starts with,
    where that is not the default. counted: what one of it and several are called where the form
    says how much is asked for. scale: how it is made smaller to fit a time.
    """

    optional: bool = False
    word: str = ""
    word_label: str = ""
    known: Callable[[], Iterable[str]] | None = None
    some: bool = True
    option: str | None = None
    metavar: str | None = None
    commas: bool = False
    parts: tuple[Field, ...] = ()
    join: Callable[[Sequence[Any]], Any] | None = None
    read: Callable[[str, Any, list[Fault]], Any] | None = None
    where: str = ""
    example: str = ""
    usual: Callable[[Values], Any] | None = None
    of: Callable[[Values], Any] | None = None
    check: Callable[[Any, Values], list[Fault]] | None = None
    counts: Literal["value", "content", "no"] = "value"
    later: bool = False
    section: str = ""
    last: bool = False
    hint: str = ""
    unit: str = ""
    percent: bool = False
    placeholder: str = ""
    slider: tuple[float, float, float] | None = None
    step: float | None = None
    upload: tuple[str, ...] | None = None
    named: Callable[[str], str] | None = None
    offered: Callable[[Values], Offer] | None = None
    shown: Callable[[Values], bool] | None = None
    about: Callable[[Any], str] | None = None
    lead: str = ""
    starts: Any = None
    chosen: Callable[[Values], Iterable[str]] | None = None
    reads: Callable[[str], object] | None = None
    accepted: Callable[[Values], None] | None = None
    quick: Any = None
    counted: tuple[str, str] | None = None
    scale: Scale | None = None

    @property
    def required(self) -> bool:
        return self.default is MISSING

    @property
    def called(self) -> str:
        """What faults call it."""
        return self.where or self.name

    @property
    def flag(self) -> str:
        """Its option of the command line; "" for none."""
        return f"--{self.name.replace('_', '-')}" if self.option is None else self.option

    @property
    def names(self) -> tuple[str, ...]:
        """The values allowed, sorted where they were found; none where it takes any."""
        return tuple(self.known()) if self.known else self.choices

    def type_faults(self, value: Any) -> list[Fault]:
        """What is wrong with the type of a value, or of each part of a list; ranges and names are
        not looked at."""
        if value is None and self.optional:
            return []
        if self.kind not in _LISTS:
            return (
                []
                if _TYPES[self.kind](value) or self._is_word(value)
                else [_not_allowed(self, value)]
            )
        if not isinstance(value, tuple):
            return [_not_allowed(self, value)]
        return [_not_allowed(self, one) for one in value if not _TYPES[self.kind](one)]

    def sound_parts(self, value: Any) -> tuple[Any, ...]:
        """The parts of a list that are of the right type; none of what is no list."""
        is_list = self.kind in _LISTS and isinstance(value, tuple)
        return tuple(one for one in value if _TYPES[self.kind](one)) if is_list else ()

    def _special(self, value: Any) -> list[Fault]:
        """Paths that are neither file nor folder, or too long for one, told before anybody opens
        them."""
        parts = (
            (value if isinstance(value, tuple) else (value,))
            if self.kind in ("text", "path", "source")
            else ()
        )
        named = [one for one in parts if isinstance(one, str) and one]
        long = [one for one in named if self.kind != "text" and is_too_long(one)]
        return [special_fault(self.called, one) for one in named if is_special(one)] + [
            too_long_fault(self.called, one) for one in long
        ]

    def _is_word(self, value: Any) -> bool:
        return bool(self.word) and isinstance(value, str) and value == self.word

    def allows(self, value: Any) -> bool:
        """Whether a value, or each part of a list, is of this kind and in range."""
        if value is None:
            return self.optional
        if self.kind in ("path", "source"):
            return isinstance(value, str)
        return self._is_word(value) or super().allows(value)

    def allowed(self) -> str:
        """What it allows, in words."""
        if self.kind in _WORDS:
            return _WORDS[self.kind]
        more = (
            f', or "{self.word}"'
            if self.word
            else f", such as {self.example}"
            if self.example
            else ""
        )
        return super().allowed() + more

    def faults(self, value: Any, values: Values) -> list[Fault]:
        """What is wrong with a value of the right type: its range first, then what only this field
        asks."""
        found = _CHECKS.get(self.kind, _of_one)(self, value, values) + self._special(value)
        is_sound = not found or isinstance(value, tuple | Mapping)
        return found + (self.check(value, values) if self.check and is_sound else [])


def special_fault(where: str, path: str) -> Fault:
    """A pipe, a socket or a device was named: reading it might never end."""
    return Fault(
        where, f"{path[:200]!r} is neither a file nor a folder.", "Name a file or a folder."
    )


def too_long_fault(where: str, path: str) -> Fault:
    """A name that no file can have was named."""
    return Fault(
        where,
        f"{path[:40]!r}… has {len(path)} letters, too many for a path.",
        "Name a file or a folder.",
    )


KINDS: Mapping[str, Kind] = {
    "bool": "flag",
    "int": "integer",
    "float": "number",
    "str": "text",
    "tuple[float, ...]": "numbers",
    "tuple[str, ...]": "names",
    "dict[str, dict[str, Any]]": "settings per method",
}
"""What an annotated attribute is where its declaration names no kind; a text of which the values
are known is a choice."""


def asked(default: Any = MISSING, **more: Any) -> Any:
    """Declares an attribute of a request dataclass; see `Field` for what can be said of it.

    The kind is that of its annotation (KINDS), and None is allowed where it is the default.
    """
    factory = {"default_factory": type(default)} if default in ({}, []) else {"default": default}
    return dataclasses.field(metadata={"asked": more}, **factory)


def part(name: str, kind: Kind, default: Any = None, *, help: str = "", **more: Any) -> Field:
    """A field that is no attribute: an option, or a list, that a value is made of."""
    return Field(name, kind, default, help, **more)


def fields_of(request: type) -> tuple[Field, ...]:
    """The declared fields of a request, its own before those that every request has."""
    return _declared((request,))  # in a tuple: mypy takes no class itself for hashable


@cache
def _declared(requests: tuple[type]) -> tuple[Field, ...]:
    items = sorted(dataclasses.fields(requests[0]), key=lambda item: item.kw_only is True)
    return tuple(_declared_field(item) for item in items if "asked" in item.metadata)


def _declared_field(item: dataclasses.Field[Any]) -> Field:
    default = item.default if item.default_factory is MISSING else item.default_factory()
    more = item.metadata["asked"]
    kind = KINDS.get(str(item.type).removesuffix(" | None"), "text")
    if kind == "text" and ("known" in more or "choices" in more):
        kind = "choice"
    usual = {"kind": kind, "help": "", "optional": default is None}
    return Field(name=item.name, default=default, **{**usual, **more})


def values_of(request: Any) -> dict[str, Any]:
    return {field.name: getattr(request, field.name) for field in fields_of(type(request))}


def type_faults(request: Any) -> list[Fault]:
    """Values of a request that are not even of their field's type, as a notebook or a JSON file may
    have them."""
    values = values_of(request)
    return [
        fault
        for field in fields_of(type(request))
        for fault in field.type_faults(values[field.name])
    ]


def checked(request: RequestT) -> tuple[RequestT, list[Fault]]:
    """All that is wrong with the fields of a request, and the request to ask further. In it the
    usual value stands for every value of another type than its field's, and lists lack such parts,
    so that no check meets one.

    RequestError where there is no such value: nothing else can be asked without a model.
    """
    fields, given, told = fields_of(type(request)), values_of(request), type_faults(request)
    wrong = [field for field in fields if field.type_faults(given[field.name])]
    if any(field.required and field.kind not in _LISTS for field in wrong):
        raise RequestError(told)
    parts = {field.name: field.sound_parts(given[field.name]) for field in wrong}
    usual = {field.name: () if field.required else field.default for field in wrong}
    sound = dataclasses.replace(request, **{name: parts[name] or usual[name] for name in parts})
    values = values_of(sound)
    asked = (field for field in fields if parts.get(field.name, True))
    return sound, told + [
        fault for field in asked for fault in field.faults(values[field.name], values)
    ]


def faults_among(request: type, values: Values) -> list[Fault]:
    """What is wrong with the values that are known of a request, by name; of those that depend on
    others nothing as long as one of these is missing."""
    fields, faults = fields_of(request), []
    every = {field.name: field.default for field in fields} | dict(values)
    is_whole = MISSING not in every.values()
    for field in (field for field in fields if field.name in values):
        if is_whole:
            faults += field.faults(values[field.name], every)
        elif field.kind not in _BY_OTHERS:
            value = values[field.name]
            faults += field.type_faults(value) or _CHECKS.get(field.kind, _of_one)(field, value, {})
    return faults


def option_fields(fields: Iterable[Field]) -> list[Field]:
    """Those with an option of their own; fields made of several are taken apart."""
    return [part for field in fields for part in field.parts or (field,) if part.flag]


def rows(request: type) -> list[dict[str, str]]:
    """One row per field for the documents: option, what it takes, what is usual, what it means."""
    return [_row(field) for field in fields_of(request) if field.flag]


def _row(field: Field) -> dict[str, str]:
    options = (f"{one.flag} {one.metavar or ''}".strip() for one in option_fields([field]))
    named = ", ".join(field.names) if field.kind in _LISTS else ""
    return {
        "field": field.name,
        "option": ", ".join(options),
        "takes": "" if field.kind == "flag" else ": ".join(filter(None, (field.allowed(), named))),
        "usual": "" if field.kind == "flag" else usual_words(field),
        "meaning": field.help or "; ".join(part.help for part in field.parts),
    }


def usual_words(field: Field) -> str:
    """The default as the command line and the documents say it; "" for none."""
    return _plainly(field.default)


def _plainly(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(_plainly, value))
    if value is MISSING or value in (None, {}):
        return ""
    return f"{value:g}" if isinstance(value, float) else str(value)


def _of_one(field: Field, value: Any, _: Values) -> list[Fault]:
    if field.allows(value):
        return []
    if field.kind == "choice":
        return [unknown(field.called, value, field.names)]
    return [_not_allowed(field, value)]


def _not_allowed(field: Field, value: Any) -> Fault:
    return Fault(field.called, f"{value!r} is not allowed.", f"Give {field.allowed()}.")


def _of_names(field: Field, value: Any, values: Values) -> list[Fault]:
    known = field.names
    faults = [unknown(field.called, name, known) for name in value if known and name not in known]
    if field.some and not value:
        offered = known or (field.offered(values).options if field.offered else ())
        fix = f"Name at least one with {(field.parts or (field,))[0].flag}."
        if offered:
            fix = f"Known: {', '.join(sorted(offered))}."
        faults.append(Fault(field.called, "none is named.", fix))
    if len(set(value)) < len(value):
        faults.append(Fault(field.called, "one is named twice.", "Name each once."))
    return faults


def _of_numbers(field: Field, value: Any, _: Values) -> list[Fault]:
    faults = [_not_allowed(field, one) for one in value if one is None or not field.allows(one)]
    if field.some and not value:
        faults.append(Fault(field.called, "none is named.", f"Give {field.allowed()}."))
    return faults


def _of_settings(field: Field, value: Any, values: Values) -> list[Fault]:
    declared = field.of(values) if field.of else None
    return [] if declared is None else setting_faults(declared, value, field.called)


def _of_settings_per_method(field: Field, value: Any, values: Values) -> list[Fault]:
    known, faults = field.of(values) if field.of else {}, []
    for name, given in value.items():
        where = f"{field.called} of {name}"
        if name not in known:
            faults.append(unknown(field.called, name, known))
        elif not isinstance(given, Mapping):
            faults.append(Fault(where, f"{given!r} is none.", "Give NAME=VALUE."))
        else:
            faults += setting_faults(known[name], given, where)
    return faults


_CHECKS: Mapping[str, Callable[[Field, Any, Values], list[Fault]]] = {
    "names": _of_names,
    "numbers": _of_numbers,
    "settings": _of_settings,
    "settings per method": _of_settings_per_method,
    **dict.fromkeys(("product", "pairs", "changes"), lambda field, value, values: []),
}
_BY_OTHERS = ("settings", "settings per method")
"""Kinds whose check asks what other fields say."""


def is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_named(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(name, str) for name in value)


_LISTS = ("names", "product", "numbers", "changes")
_TYPES: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(
        ("text", "path", "source", "choice", "names", "product"),
        lambda value: isinstance(value, str),
    ),
    **dict.fromkeys(("settings", "settings per method", "pairs"), _is_named),
    **dict.fromkeys(("number", "numbers"), is_number),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "flag": lambda value: isinstance(value, bool),
    "changes": lambda value: _is_named(value) and isinstance(value.get("name"), str),
}
"""Whether a value is of a kind's type; of `_LISTS`, whether a part is."""
_WORDS: Mapping[str, str] = {
    "text": "a text",
    "path": "a path",
    "source": "a name or a path",
    **dict.fromkeys(("names", "product"), "a list of names"),
    **dict.fromkeys(("settings", "pairs"), "values by name"),
    "settings per method": "values by name, by method",
    "changes": "a list of changes, each with its name",
}


def axis_faults(axes: Sequence[str], known: Sequence[str]) -> list[Fault]:
    """Axes with a part that is no group column."""
    return [
        unknown("axis", part, known, "Join two with +.")
        for axis in axes
        for part in axis.split("+")
        if part not in known
    ]


def attempt(load: Callable[[], T], faults: list[Fault]) -> T | None:
    """What `load` gives; None where it raises RequestError, whose faults are added."""
    try:
        return load()
    except RequestError as error:
        faults.extend(error.faults)
        return None


def device_faults(name: str, _: Any) -> list[Fault]:
    """A device that is not there."""
    from engine.models import runtime  # loads torch

    faults: list[Fault] = []
    attempt(lambda: runtime.pick_device(name), faults)
    return faults
