"""A request as words of the command line: the inverse of reading, given only where reading gives
the request back."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr
from io import StringIO
from typing import Any

from engine.audit.fields import Field, fields_of, values_of
from engine.audit.reading import add_options, made, read_fields
from engine.audit.tracks import request_from, track_of_request
from engine.core.errors import RequestError


def command_of(asked: Mapping[str, Any]) -> str:
    """The command that asks for what run.json's `request` holds; "" where no words give just
    that."""
    try:
        request = request_from(asked)
        kind = type(request)
        words = [
            word
            for field in fields_of(kind)
            for word in _words(field, getattr(request, field.name))
        ]
        again = _read(words, kind)
        if again is None or _said(again) != _said(request):
            return ""
    except (RequestError, TypeError, ValueError, KeyError):
        return ""
    return shlex.join(["python", "-m", "engine", track_of_request(request).word, *words])


def _read(words: list[str], kind: type) -> Any:
    """The request that the words ask for."""
    parser = argparse.ArgumentParser(exit_on_error=False, add_help=False, allow_abbrev=False)
    add_options(parser, fields_of(kind))
    faults: list[Any] = []
    try:
        with redirect_stderr(StringIO()):
            args = parser.parse_args(words)
    except (SystemExit, argparse.ArgumentError):
        return None
    values = read_fields(args, fields_of(kind), faults)
    return None if faults else made(kind, values)


def _said(request: Any) -> dict[str, Any]:
    """The values of a request; of settings per method those that say something."""
    values = values_of(request)
    for field in fields_of(type(request)):
        if field.kind == "settings per method":
            values[field.name] = {
                method: given for method, given in values[field.name].items() if given
            }
    return values


def _words(field: Field, value: Any) -> list[str]:
    """The option of a field and its words; none where it is what it would be anyway, or has none of
    its own."""
    if (
        not field.flag
        or field.parts
        or (value == field.default and not field.usual)
        or value is None
    ):
        return []
    if field.kind == "flag":
        return _flag(field, bool(value))
    return [
        word for one in _WRITTEN.get(field.kind, _one)(value, field) for word in (field.flag, one)
    ]


def _flag(field: Field, value: bool) -> list[str]:
    if field.flag.startswith("--no-"):
        return [] if value else [field.flag]
    return [field.flag if value else f"--no-{field.flag[2:]}"] if value or field.optional else []


def _one(value: Any, _: Field) -> list[str]:
    return [
        f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)
    ]


def _numbers(value: Any, field: Field) -> list[str]:
    return [",".join(_one(one, field)[0] for one in value)]


def _names(value: Any, field: Field) -> list[str]:
    return [",".join(value)] if field.commas else list(value)


def _pairs(value: Mapping[str, Any], _: Field) -> list[str]:
    return [f"{name}={_json(one)}" for name, one in value.items()]


def _per_method(value: Mapping[str, Mapping[str, Any]], _: Field) -> list[str]:
    return [
        f"{method}.{name}={_json(one)}"
        for method, given in value.items()
        for name, one in given.items()
    ]


def _json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


_WRITTEN: Mapping[str, Callable[[Any, Field], list[str]]] = {
    "numbers": _numbers,
    "names": _names,
    "product": _names,
    "pairs": _pairs,
    "settings": _pairs,
    "settings per method": _per_method,
}
