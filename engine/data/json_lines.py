"""JSON that comes with prompts and benchmarks: a whole file, or one object per line, each fault
with its line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from engine.core.errors import Fault, RequestError
from engine.data.tables import text_of

MOST_FAULTS = 20
"""Faulty lines that are named one by one."""


def read_json(path: Path) -> dict[str, Any]:
    """The object of a JSON file. Raises RequestError where there is none."""
    text = text_of(path)
    try:
        content = json.loads(text)
        json.dumps(content, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        raise RequestError(
            Fault(path.name, "Some text holds half a character.", "Use the published file.")
        ) from error
    except (
        ValueError,
        RecursionError,
    ) as error:  # ValueError: no JSON, or a number of thousands of digits
        raise RequestError(
            Fault(path.name, f"Not JSON ({str(error)[:200]}).", "Use the published file.")
        ) from error
    if not isinstance(content, dict) or not content:
        raise RequestError(
            Fault(path.name, "Expected a JSON object with entries.", "Use the published file.")
        )
    return content


def read_json_lines(path: Path) -> tuple[list[tuple[int, dict[str, Any]]], list[Fault]]:
    """Objects with the number of their line, from 1, and a fault for each line that is none. Raises
    RequestError where the file cannot be read at all."""
    found: list[tuple[int, dict[str, Any]]] = []
    faults: list[Fault] = []
    for number, line in enumerate(text_of(path).split("\n"), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        except (ValueError, RecursionError) as error:
            faults.append(
                Fault(
                    f"{path.name}, row {number}",
                    f"Not JSON ({str(error)[:120]}).",
                    "One object a line.",
                )
            )
            continue
        if isinstance(value, dict):
            found.append((number, value))
        else:
            faults.append(
                Fault(f"{path.name}, row {number}", "Not a JSON object.", "One object a line.")
            )
    return found, faults


def few(faults: list[Fault], name: str) -> list[Fault]:
    """The first faults, and how many more there are."""
    left = len(faults) - MOST_FAULTS
    more = (
        [Fault(name, f"{left} more rows have faults.", "Use the published file.")]
        if left > 0
        else []
    )
    return [*faults[:MOST_FAULTS], *more]
