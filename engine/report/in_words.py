"""Numbers as one says them aloud: two digits, small counts as words, "more than halves" for a
ratio."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import groupby

from engine.report import phrasing

_COUNTS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def short(value: float) -> str:
    """Two digits, e.g. "0.47", "2.2", "340"; three where two would round a share below 1 up to
    1."""
    if not math.isfinite(value):
        return phrasing.number(value)
    if not value or abs(value) >= 99.5:
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


def verbs(phrases: Iterable[Sequence[str]]) -> str:
    """Verbs with what they are about as one predicate; neighbours with one verb share it."""
    parts = []
    for verb, group in groupby(phrases, key=lambda phrase: phrase[0]):
        *most, last = every = [rest for _, rest in group]
        is_long = any(" for " in phrase and phrase[-1] != ")" for phrase in every)
        joint = ", and " if is_long else " and "
        parts.append(f"{verb} {joint.join(filter(None, (', '.join(most), last)))}")
    joint = ", and " if any(" and " in part for part in parts) else " and "
    return joint.join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))


def length(sentence: str) -> int:
    """Words of a sentence; a sign by itself is none."""
    return sum(any(letter.isalnum() for letter in word) for word in sentence.split())


def who(groups: Sequence[str], total: int, most: int, judged: int) -> str:
    """Groups in a headline: all that can be judged, each by name, or more than `most` as a
    count."""
    if len(groups) == judged == total == 2 > most:
        return "both groups"
    if len(groups) == judged > 2:
        return f"all {counted(judged)} {'judged ' * (judged < total)}groups"
    if len(groups) > most:
        return f"{counted(len(groups))} of {counted(total)} groups"
    return phrasing.listing(groups)


def names(groups: Sequence[str]) -> str:
    """Groups in a sentence, of more than three the first two by name."""
    if len(groups) > 3:
        return phrasing.listing([*groups[:2], f"{counted(len(groups) - 2)} more"])
    return phrasing.listing(groups)
