"""Numbers as one says them aloud: two digits, small counts as words, "more than halves" for a
ratio."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from engine.report import phrasing

_COUNTS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def short(value: float) -> str:
    """Two digits, e.g. "0.47", "2.2", "340"; three where two would round a share below 1 up to
    1."""
    if not math.isfinite(value):
        return phrasing.number(value)
    if abs(value) >= 99.5:
        return phrasing.number(value)
    digits = 3 if 0.995 <= abs(value) < 1 else 2
    text = f"{value:#.{digits}g}".rstrip(".")
    return (phrasing.number(value) if "e" in text else text).replace("-", phrasing.MINUS)


def apart(*values: float) -> list[str]:
    """The same, with a digit more where numbers that differ would read the same."""
    told = [short(value) for value in values]
    if len(set(told)) < len(set(values)):
        return [phrasing.number(value) for value in values]
    return told


def counted(number: int) -> str:
    """E.g. "four", "12"."""
    return _COUNTS[number] if 0 <= number < len(_COUNTS) else f"{number:,}"


def millions(number: float) -> str:
    """How many parameters, e.g. "0.5 million", "1.1 billion", "53,000"."""
    for size, name in ((1e9, "billion"), (1e6, "million")):
        if number >= 0.095 * size:
            text = f"{number / size:.2g}" if number < 99.5 * size else f"{number / size:.0f}"
            return f"{text} {name}"
    return f"{float(f'{number:.2g}'):,.0f}"


def per_cent(share: float) -> str:
    """A share with two digits, e.g. "8.3 %", "63 %"."""
    size = 100 * abs(share)
    text = f"{size:.0f}" if size >= 9.95 else f"{size:.2g}"
    return f"{text} %"


def fell_by(ratio: float) -> str:
    """What it means that a value fell to `ratio` of what it was: a verb, e.g. "more than
    halves"."""
    if ratio <= 0.1:
        return "takes away nine tenths or more of"
    if ratio <= 0.25:
        return "takes away three quarters or more of"
    if ratio < 0.475:
        return "more than halves"
    if ratio <= 0.525:
        return "about halves"
    return f"shrinks by {_about(1 - ratio)}"


def rose_by(ratio: float) -> str:
    """What it means that a value rose to `ratio` of what it was: a verb."""
    if ratio >= 2.1:
        return "more than doubles"
    if ratio >= 1.9:
        return "about doubles"
    return f"enlarges by {_about(ratio - 1)}"


def _about(share: float) -> str:
    """A share to the nearest five per cent, small ones to the nearest one."""
    size = 100 * share
    return f"about {5 * round(size / 5) if size >= 10 else max(round(size), 1)} %"


def names(groups: Sequence[str], most: int = 3) -> str:
    """Groups in a sentence, the first ones by name."""
    if len(groups) > most:
        return phrasing.listing([*groups[: most - 1], f"{counted(len(groups) - most + 1)} more"])
    return phrasing.listing(groups)


def model(name: str) -> str:
    """A model's name; of a path its last part."""
    return Path(name).name if name.startswith(("/", "~", ".")) else name
