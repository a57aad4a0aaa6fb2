"""JSON that users bring (masks, judges, model cards): read as carefully as our own, which has a
seal (`sealed.py`).

What is no such document is refused with what to do; fields that nobody knows are left out: a newer
program of the same schema may write some.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.core.errors import Fault, refusal, refuse, refused_by_system, said_by
from engine.core.files import is_special
from engine.core.types import Values

Kinds = type | tuple[type, ...]
NUMBER = (int, float)


@dataclass(frozen=True)
class Form:
    """What one kind of document holds: types of its fields by name, those it must and those it may
    have.

    `what` and `fix` name it and say where a right one comes from; `schemas` are those this version
    reads, None where the form never had a number; `largest` in bytes.
    """

    what: str
    fix: str
    needed: Mapping[str, Kinds]
    optional: Mapping[str, Kinds]
    schemas: tuple[int, ...] | None = (1,)
    kind: str = ""
    largest: int = 16_000_000


def read_user_json(path: str | Path, form: Form) -> dict[str, Any]:
    """The fields that the form knows, as they stand in the file. RequestError with every fault of
    it."""
    plain = read_object(path, form.largest, form.fix)
    faults = _of_another_kind(plain, form) or _wrong_fields(plain, form)
    refuse(faults)
    known = {**form.needed, **form.optional}
    return {name: value for name, value in plain.items() if name in known}


def read_object(path: str | Path, largest: int, fix: str, finite: bool = True) -> dict[str, Any]:
    """The JSON object in a file. RequestError where there is none, or more than `largest` bytes, or
    a field twice, or, where numbers must be `finite`, NaN or Infinity."""
    path = Path(path)
    try:
        if is_special(path):
            raise ValueError("neither a file nor a folder")
        if path.stat().st_size > largest:
            raise ValueError("far too large")
        plain = json.loads(
            path.read_text(encoding="utf-8"),
            object_pairs_hook=_once,
            parse_constant=_refuse if finite else None,
        )
        if not isinstance(plain, dict):
            raise ValueError("not an object")
    except OSError as error:
        raise refusal(str(path), f"cannot be read ({refused_by_system(error)}).", fix) from error
    except (ValueError, RecursionError) as error:
        raise refusal(str(path), f"is no JSON object ({said_by(error)}).", fix) from error
    return plain


def _once(pairs: list[tuple[str, Any]]) -> Values:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(
            f"{next(name for name in names if names.count(name) > 1)!r} is there twice"
        )
    return found


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is no number")


def _of_another_kind(plain: Values, form: Form) -> list[Fault]:
    """Whether the document says that it is something else, or of another version."""
    schema, kind = plain.get("schema"), plain.get("kind", "")
    if form.schemas is None or (
        type(schema) is int and schema in form.schemas and kind == form.kind
    ):
        return []
    newer = (
        "A newer version may have written it. "
        if type(schema) is int and schema > max(form.schemas)
        else ""
    )
    known = ", ".join(f"schema {number}" for number in form.schemas) + (
        f", kind {form.kind!r}" if form.kind else ""
    )
    return [
        Fault(
            form.what,
            f"has schema {schema!r}, kind {kind!r}.",
            f"Known: {known}. {newer}{form.fix}",
        )
    ]


def _wrong_fields(plain: Values, form: Form) -> list[Fault]:
    said = {
        name: "is missing or of the wrong kind."
        for name in form.needed
        if not fits(plain.get(name), form.needed[name])
    }
    given = {name: kinds for name, kinds in form.optional.items() if name in plain}
    said |= {
        name: "is of the wrong kind."
        for name, kinds in given.items()
        if not fits(plain[name], kinds)
    }
    return [Fault(f"{form.what} {name}", what, form.fix) for name, what in said.items()]


def fits(value: Any, kinds: Kinds) -> bool:
    """Whether a value of JSON is of one of the types; true and false are no numbers."""
    return isinstance(value, kinds) and not (isinstance(value, bool) and kinds is not bool)
