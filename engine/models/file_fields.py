"""What becomes of every field of the configuration files beside weights: obeyed, irrelevant, or refused.

A field that nobody looks at is a wrong audit that nobody sees. So each file has a table here, `docs/inputs.md` prints
it, and tests hold it against the fields that transformers itself writes. A field that no table knows is named to the
reader (`unread`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.core.errors import Fault

OBEYED, IRRELEVANT, REFUSED = "obeyed", "irrelevant", "refused"


@dataclass(frozen=True)
class Fate:
    """What becomes of one field. why: by whom it is obeyed, why it changes no number, or what to do about a refusal.

    asks_nothing: of a refused field, the values with which it asks for nothing.
    """

    kind: str
    why: str
    asks_nothing: tuple[Any, ...] = (None, False)


def obeyed(why: str) -> Fate:
    """transformers or this project does what the field says."""
    return Fate(OBEYED, why)


def irrelevant(why: str) -> Fate:
    """No number hangs on the field, because of `why`."""
    return Fate(IRRELEVANT, why)


def refused(fix: str, *asks_nothing: Any) -> Fate:
    """Any value but None, False and those given is refused; `fix` says what to do."""
    return Fate(REFUSED, fix, (None, False, *asks_nothing))


FIELDS: dict[str, dict[str, Fate]] = {
    "preprocessor_config.json": {},
    "generation_config.json": {},
    "tokenizer_config.json": {},
    "adapter_config.json": {},
    "config.json": {},
}
"""By file, then by field. Of config.json only what every family shares; the rest belongs to transformers' own class."""


def refusals(file: str, said: Mapping[str, Any], where: str) -> list[Fault]:
    """A fault for every refused field of `file` that asks for something. where: how the file is named to the reader."""
    fates = FIELDS[file]
    return [
        Fault(where, f"sets {name} to {str(value)[:60]!r}, which is not obeyed here.", fates[name].why)
        for name, value in said.items()
        if name in fates and fates[name].kind == REFUSED and not _asks_nothing(value, fates[name])
    ]


def unread(file: str, said: Mapping[str, Any]) -> list[str]:
    """Names of fields that the file has and its table does not, sorted."""
    return sorted(str(name) for name in said if name not in FIELDS[file])


def _asks_nothing(value: Any, fate: Fate) -> bool:
    return any(value is one or (type(value) is type(one) and value == one) for one in fate.asks_nothing)
