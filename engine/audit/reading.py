"""Declared fields as options of the command line, and words as values. What cannot be read becomes
a fault."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from engine.audit.fields import Field, faults_among, fields_of, option_fields, usual_words
from engine.core.errors import Fault, RequestError
from engine.core.files import in_full

RequestT = TypeVar("RequestT")


def add_options(parser: argparse.ArgumentParser, fields: Iterable[Field], group: str = "") -> None:
    """The option of every field, but for those that the parser has already; all others under the
    title `group`."""
    fields = [
        field for field in option_fields(fields) if field.flag not in parser._option_string_actions
    ]
    place = parser.add_argument_group(group) if group and fields else parser
    for field in fields:
        place.add_argument(field.flag, help=_help(field), default=None, **_action(field))


def _help(field: Field) -> str:
    usual = "" if field.kind == "flag" or "default" in field.help else usual_words(field)
    return f"{field.help}{f' (default: {usual})' if usual else ''}".replace("%", "%%")


def _action(field: Field) -> dict[str, Any]:
    if field.kind == "flag":
        if field.optional and not field.flag.startswith("--no-"):
            return {"action": argparse.BooleanOptionalAction}
        return {"action": "store_const", "const": not field.flag.startswith("--no-")}
    several = field.kind in ("names", "pairs", "settings", "settings per method", "changes")
    return {"metavar": field.metavar, **({"action": "append"} if several else {})}


def given(args: argparse.Namespace, field: Field) -> Any:
    """What the words say about a field; None where nothing."""
    return getattr(args, field.flag.lstrip("-").replace("-", "_"), None)


def foreign_options(
    args: argparse.Namespace, others: Iterable[Field], own: Iterable[Field], about: str
) -> list[Fault]:
    """Options given that are of `others`, and mean nothing for the audits of `own`, which are
    `about` something."""
    mine = {field.flag for field in option_fields(own)}
    wrong = [
        field.flag
        for field in option_fields(others)
        if field.flag not in mine and given(args, field) is not None
    ]
    return [Fault(flag, f"is not for {about}.", "Leave it out.") for flag in dict.fromkeys(wrong)]


def read_fields(
    args: argparse.Namespace, fields: Iterable[Field], faults: list[Fault]
) -> dict[str, Any]:
    """Values of the fields that the words say something about, by name; without those that cannot
    be read."""
    found = {}
    for field in fields:
        before = len(faults)
        value = _read_parts(args, field, faults) if field.parts else _read_one(args, field, faults)
        if value is not None and len(faults) == before:
            found[field.name] = value
    return found


def request_of(args: argparse.Namespace, request: type[RequestT], **fixed: Any) -> RequestT:
    """The request the words ask for; `fixed`: what they do not say here. RequestError with all that
    cannot be read."""
    faults: list[Fault] = []
    values = {**read_fields(args, fields_of(request), faults), **fixed}
    return made(request, values, faults)


def made(
    request: type[RequestT], values: Mapping[str, Any], faults: Sequence[Fault] = ()
) -> RequestT:
    """A request of what was read, with what is usual where nothing was said.

    faults: what could not be read. RequestError with all of these, and with what is wrong with the
    values that could.
    """
    values, faults = dict(values), list(faults)
    for field in fields_of(request):
        if field.name not in values and field.usual:
            values[field.name] = field.usual(values)
        if field.name not in values and field.required:
            faults.append(Fault(field.flag, "is missing.", "Name it."))
    if faults:
        raise RequestError([*faults, *faults_among(request, values)])
    return request(**values)


def _read_parts(args: argparse.Namespace, field: Field, faults: list[Fault]) -> Any:
    values = [_read_one(args, part, faults) for part in field.parts]
    if field.join is None or all(value is None for value in values):
        return None
    pairs = zip(values, field.parts, strict=True)
    return field.join([part.default if value is None else value for value, part in pairs])


def _read_one(args: argparse.Namespace, field: Field, faults: list[Fault]) -> Any:
    words = given(args, field) if field.flag else None
    if words is None:
        return None
    if field.read:
        return field.read(field.flag, words, faults)
    return _READERS[field.kind](field, words, faults)


def absolute(text: str) -> str:
    """A path in full where something is there: a job's process may start in another folder. Names
    stay."""
    path = Path(in_full(text))
    return str(path) if os.path.exists(path) and ("/" in text or path.is_file()) else text


def _path(_: Field, text: str, __: list[Fault]) -> str | None:
    """In full, whether something is there or not; "" says nothing."""
    return in_full(text) if text else None


def _number(field: Field, text: str, faults: list[Fault]) -> float | str | None:
    if text == field.word:
        return text
    try:
        return int(text) if field.kind == "integer" else float(text)
    except ValueError:
        what = f"{text!r} is no {'whole number' if field.kind == 'integer' else 'number'}."
        faults.append(Fault(field.flag, what, f"Give {field.allowed()}."))
        return None


def _numbers(field: Field, text: str, faults: list[Fault]) -> tuple[float, ...]:
    return numbers_of(field.flag, text, faults, field.example)


def numbers_of(
    where: str, text: str, faults: list[Fault], example: str = "2,4,16"
) -> tuple[float, ...]:
    """ "2,4,16x" -> (2.0, 4.0, 16.0)."""
    try:
        return tuple(float(part.strip().rstrip("x×")) for part in text.split(",") if part.strip())
    except ValueError:
        faults.append(
            Fault(where, f"{text!r} is not a list of numbers.", f"Write for example {example}.")
        )
        return ()


def names_in(words: Sequence[str] | None, commas: bool = True) -> tuple[str, ...]:
    """["a,b", "c"] -> ("a", "b", "c"), each once; commas: whether they separate."""
    parts = [
        part.strip() for item in words or () for part in (item.split(",") if commas else [item])
    ]
    return tuple(dict.fromkeys(filter(None, parts)))


def settings_of(where: str, words: Sequence[str], faults: list[Fault]) -> dict[str, dict[str, Any]]:
    """["autobot.iterations=100"] -> {"autobot": {"iterations": 100}}."""
    found: dict[str, dict[str, Any]] = {}
    for name, value in pairs_of(where, words, faults).items():
        method, dot, setting = name.partition(".")
        if not dot:
            faults.append(
                Fault(
                    where, f"{name!r} names no method.", "Write for example autobot.iterations=100."
                )
            )
        found.setdefault(method, {})[setting] = value
    return found


def pairs_of(where: str, words: Sequence[str], faults: list[Fault]) -> dict[str, Any]:
    """["a=1", "b=x"] -> {"a": 1, "b": "x"}; values are read as JSON, else taken as text. "default"
    says nothing."""
    found: dict[str, Any] = {}
    for item in words:
        name, equals, value = item.partition("=")
        if item == "default":
            continue
        if not (name and equals):
            faults.append(
                Fault(where, f"{item!r} is no NAME=VALUE.", "Write for example epochs=5.")
            )
            continue
        try:
            found[name.strip()] = json.loads(value)
        except ValueError:
            found[name.strip()] = value
    return found


def _as_it_is(_: Field, words: Any, __: list[Fault]) -> Any:
    return words


_READERS: Mapping[str, Callable[[Field, Any, list[Fault]], Any]] = {
    **dict.fromkeys(("text", "choice", "flag"), _as_it_is),
    "path": _path,
    "source": lambda field, text, faults: absolute(text),
    "integer": _number,
    "number": _number,
    "numbers": _numbers,
    "names": lambda field, words, faults: names_in(words, field.commas),
    "settings": lambda field, words, faults: pairs_of(field.flag, words, faults),
    "settings per method": lambda field, words, faults: settings_of(field.flag, words, faults),
    "pairs": lambda field, words, faults: pairs_of(field.flag, words, faults),
}
