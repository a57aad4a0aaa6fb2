"""One value, one spelling: what tables write for the same class or group in several ways is read as
one, and said."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from decimal import Decimal

import pandas as pd

from engine.core.errors import Fault

MISSING = ("nan", "NaN", "NAN", "<NA>", "null", "NULL", "#N/A")
"""What pandas and spreadsheets write into a cell that has no value."""
DOUBTFUL = ("none", "na", "n/a", "n.a.", "-", "?", "unknown")
"""Words, in small letters, that are a value or mean that there is none: nobody but their writer
knows."""
MOST_REAL = 10
"""More different numbers than this, some of them not whole, are measurements and no classes."""
MOST_SAID = 8
"""Values of one column that are named in its notes."""
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,2})?")
_DIGITS = 25
"""Characters of a number; decimal arithmetic keeps 28 digits."""
_UNSEEN = dict.fromkeys(map(ord, "\u200b\ufeff\u00ad"))
"""Blanks without a width and hyphens that do not show."""


def one_spelling(
    values: pd.Series, column: str, decimal: str = ".", missing: Collection[str] = MISSING
) -> tuple[pd.Series, tuple[str, ...]]:
    """A column of classes or groups, [rows] str, with each value in one spelling, and notes that
    count what was joined.

    Equal numbers are one, written the shortest way. What differs by capitals, blanks or Unicode
    form is one, in its most frequent spelling. What is written for a `missing` value is "".
    decimal: "," where numbers may have decimal commas. Values without a second spelling stay as
    they are.
    """
    counts = Counter(values.tolist())
    gone = {value: n for value, n in counts.items() if value in missing}
    kinds: dict[Decimal | str, dict[str, int]] = defaultdict(dict)
    for value in sorted(set(counts) - set(gone) - {""}):
        kinds[_key(value, decimal)][value] = counts[value]
    names = _names(kinds)
    new = {value: names[key] for key, kind in kinds.items() for value in kind} | dict.fromkeys(
        gone, ""
    )
    if all(value == name for value, name in new.items()):
        return values, _doubts(kinds, names, column)
    notes = [f"{column}: {_counted(gone)} {_are(gone)} read as missing."] if gone else []
    notes += _joined(kinds, names, column)
    return values.map(lambda value: new.get(value, value)), (*notes, *_doubts(kinds, names, column))


def regression_faults(where: str, classes: Collection[str]) -> list[Fault]:
    """A fault where `classes` are measurements: many numbers, some of them not whole."""
    # Of points or commas: it is only said.
    numbers = [number for value in classes if (number := _number(value, ",")) is not None]
    if (
        len(numbers) <= MOST_REAL
        or len(numbers) < len(classes)
        or all(number == int(number) for number in numbers)
    ):
        return []
    what = (
        f"It holds {len(numbers):,} different numbers: a regression, and PruneAudit audits"
        " classifiers."
    )
    return [Fault(where, what, "Put the numbers into classes yourself, such as low and high.")]


def _key(value: str, decimal: str) -> Decimal | str:
    """What two spellings of one value have in common."""
    number = _number(value, decimal)
    if number is not None:
        return number
    plain = unicodedata.normalize("NFC", value.translate(_UNSEEN)).casefold()
    return unicodedata.normalize("NFC", " ".join(plain.split()))


def _number(value: str, decimal: str) -> Decimal | None:
    point = value.replace(decimal, ".")
    return Decimal(point) if len(point) <= _DIGITS and _NUMBER.fullmatch(point) else None


def _names(kinds: Mapping[Decimal | str, Mapping[str, int]]) -> dict[Decimal | str, str]:
    """The spelling of every value: numbers all the shortest way where any of them has two, or is
    whole with a point."""
    numbers = {key: kind for key, kind in kinds.items() if isinstance(key, Decimal)}
    again = any(len(kind) > 1 or "," in "".join(kind) for kind in numbers.values())
    again |= all(key == int(key) for key in numbers) and any(
        "." in "".join(kind) for kind in numbers.values()
    )
    return {
        key: (
            f"{key.normalize() + 0:f}"
            if again and isinstance(key, Decimal)
            else _most_frequent(kind)
        )
        for key, kind in kinds.items()
    }


def _most_frequent(kind: Mapping[str, int]) -> str:
    """The only spelling as it stands, or the most frequent one with plain single blanks."""
    return (
        next(iter(kind))
        if len(kind) == 1
        else " ".join(max(kind, key=lambda one: kind[one]).split())
    )


def _joined(
    kinds: Mapping[Decimal | str, Mapping[str, int]],
    names: Mapping[Decimal | str, str],
    column: str,
) -> list[str]:
    """A sentence on each value that had several spellings, and one on numbers that are written
    another way now."""
    several = {names[key]: kind for key, kind in kinds.items() if len(kind) > 1}
    notes = [
        f"{column}: {_counted(kind)} are read as one: “{name}”." for name, kind in several.items()
    ]
    if len(notes) > MOST_SAID:
        notes = [
            *notes[:MOST_SAID],
            f"{column}: {len(notes) - MOST_SAID} more values had several spellings.",
        ]
    alone = {next(iter(kind)): names[key] for key, kind in kinds.items() if len(kind) == 1}
    if respelled := [f"“{value}” as “{name}”" for value, name in alone.items() if value != name]:
        more = f" and {len(respelled) - 2} more" if len(respelled) > 2 else ""
        notes.append(
            f"{column}: numbers are written the shortest way, {', '.join(respelled[:2])}{more}."
        )
    return notes


def _doubts(
    kinds: Mapping[Decimal | str, Mapping[str, int]],
    names: Mapping[Decimal | str, str],
    column: str,
) -> tuple[str, ...]:
    said = {names[key]: sum(kinds[key].values()) for key in DOUBTFUL if key in kinds}
    return (
        (f"{column}: {_counted(said)} {_are(said)} read as a value, not as missing.",)
        if said
        else ()
    )


def _counted(kind: Mapping[str, int]) -> str:
    """Spellings with how often each stands there, the most frequent first."""
    ordered = sorted(kind, key=lambda one: (-kind[one], one))
    named = [f"“{value[:60]}” ({kind[value]:,})" for value in ordered]
    return " and ".join(filter(None, (", ".join(named[:-1]), named[-1])))


def _are(kind: Mapping[str, int]) -> str:
    return "is" if len(kind) == 1 else "are"
