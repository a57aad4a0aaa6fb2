"""Words of the command line as values: paths, numbers, pairs, settings. What cannot be read becomes a fault."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.core.errors import Fault


def absolute(text: str) -> str:
    """A path in full where something is there: a job's process may start in another folder. Names stay."""
    path = Path(text).expanduser()
    return str(path.absolute()) if path.exists() and ("/" in text or path.is_file()) else text


def numbers_of(where: str, text: str, faults: list[Fault]) -> tuple[float, ...]:
    """ "2,4,16x" -> (2.0, 4.0, 16.0)."""
    try:
        return tuple(float(part.strip().rstrip("x×")) for part in text.split(",") if part.strip())
    except ValueError:
        faults.append(Fault(where, f"{text!r} is not a list of numbers.", "Write for example 2,4,16."))
        return ()


def settings_of(given: Sequence[str], faults: list[Fault]) -> dict[str, dict[str, Any]]:
    """["autobot.iterations=100"] -> {"autobot": {"iterations": 100}}."""
    found: dict[str, dict[str, Any]] = {}
    for name, value in pairs_of("--set", given, faults).items():
        method, dot, setting = name.partition(".")
        if not dot:
            faults.append(Fault("--set", f"{name!r} names no method.", "Write for example autobot.iterations=100."))
        found.setdefault(method, {})[setting] = value
    return found


def pairs_of(where: str, given: Sequence[str], faults: list[Fault]) -> dict[str, Any]:
    """["a=1", "b=x"] -> {"a": 1, "b": "x"}; values are read as JSON, else taken as text. "default" says nothing."""
    found: dict[str, Any] = {}
    for item in given:
        name, equals, value = item.partition("=")
        if item == "default":
            continue
        if not (name and equals):
            faults.append(Fault(where, f"{item!r} is no NAME=VALUE.", "Write for example epochs=5."))
            continue
        try:
            found[name.strip()] = json.loads(value)
        except ValueError:
            found[name.strip()] = value
    return found
