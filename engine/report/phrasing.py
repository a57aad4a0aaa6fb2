"""Numbers and verdicts in words. Everything a sentence claims is decided here from value and
interval."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import groupby
from typing import Any

from scipy.special import stdtrit

from engine.core.types import Values
from engine.stats.clustered import MISSED, with_own_noise

MINUS = "\u2212"

VERBS = {
    "fell": "lowers",
    "rose": "raises",
    "unclear": "does not clearly change",
    "unknown": "moves",
}
"""What a cut does to a measure, by the `direction` of its change."""
SAME = 1e-9
"""A value and the end of a band that differ by no more are equal but for the order of additions."""


def no_interval(few: str) -> str:
    """Why there is none; `few` is what there are too few of."""
    return f"no interval: too few {few}"


def number(value: float | None, perplexity: bool = False) -> str:
    """Three significant digits; perplexity two decimals; thousands as k, millions as M; "not
    measured" for NaN."""
    if value is None or not math.isfinite(value):
        return "not measured" if value is None or math.isnan(value) else "infinite"
    size = abs(value)
    if size >= 1e9:
        text = _power(value)
    elif size >= 1e6:
        text = f"{value / 1e6:.3g}M"
    elif size >= 1e4:
        text = f"{value / 1e3:.0f}k" if size >= 1e5 else f"{value / 1e3:.1f}k"
    elif perplexity and size >= 0.1:  # smaller ones are changes, which two decimals would hide
        text = f"{value:.2f}"
    elif size >= 1000:
        text = f"{value:.0f}"
    elif size < 0.00005:
        text = "0" if size == 0 else _power(value)
    elif size < 0.0005:
        text = f"{value:.4f}"
    else:
        text = f"{value:.3f}" if size < 1 else f"{value:#.3g}".rstrip(".")
    return text.replace("-", MINUS)


def _power(value: float) -> str:
    """E.g. "2.1 × 10⁻⁶"."""
    digits, power = f"{value:.2g}", 0
    if "e" in digits or abs(value) < 0.0005:
        digits, exponent = f"{value:.1e}".split("e")
        power = int(exponent)
    raised = str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{digits.removesuffix('.0')} × 10{raised}"


def signed(value: float, perplexity: bool = False) -> str:
    """A change, always with its sign."""
    if not math.isfinite(value):
        return number(value)
    return ("+" if value > 0 else "") + number(value, perplexity)


def span(low: float, high: float, perplexity: bool = False, few: str = "prompts") -> str:
    """An interval in words, or that there is none."""
    if not (_finite(low) and _finite(high)):
        return no_interval(few)
    return f"{number(low, perplexity)} to {number(high, perplexity)}"


def with_interval(
    value: float, low: float, high: float, perplexity: bool = False, few: str = "prompts"
) -> str:
    """E.g. "0.411 (0.294 to 0.581)"."""
    if math.isnan(value):
        return number(value)
    return f"{number(value, perplexity)} ({span(low, high, perplexity, few)})"


def correlation(value: float) -> str:
    """A correlation, or another number from −1 to 1, with two decimals."""
    if math.isnan(value):
        return number(value)
    return f"{round(value, 2) + 0.0:.2f}".replace("-", MINUS)  # no negative zero


def percent(share: float) -> str:
    """A share of heads, e.g. "20 %" or "3.1 %"."""
    text = f"{100 * share:.1f}".rstrip("0").rstrip(".")
    return f"{text.replace('-', MINUS)} %"


def factor(ratio: float) -> str:
    """How many times, e.g. "16×" or "1.33×"."""
    return f"{ratio:.3g}×" if ratio < 1000 else f"{ratio:.0f}×"


def count(number_of: int, one: str, many: str = "") -> str:
    return f"{number_of:,} {one if number_of == 1 else many or one + 's'}"


def sentence(text: str) -> str:
    """The text with a large first letter, the rest as it is; a Greek letter is a symbol and stays
    as it is."""
    return text if "α" <= text[:1] <= "ω" else text[:1].upper() + text[1:]


def sentences(parts: Iterable[str]) -> str:
    """Each as a sentence of its own."""
    return " ".join(f"{sentence(part)}." for part in parts)


def listing(names: Iterable[object], limit: int = 6) -> str:
    """ "a, b and c", shortened with a count when long."""
    words = [str(name) for name in names]
    if len(words) > limit:
        words = [*words[: limit - 1], f"{len(words) - limit + 1} more"]
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def direction(row: Values, among: int = 1) -> str:
    """ "fell", "rose", "unclear" (the interval of the change includes zero, or exchanging the
    models gives as much in over 5 %) or "unknown" (there is no interval). among: of so many rows
    any may be named, and in 5 % one is that did not change: intervals widen."""
    low, high = row.get("delta_low", math.nan), row.get("delta_high", math.nan)
    if not (_finite(low) and _finite(high)):
        return "unknown"
    if among > 1:
        low, high = (row["delta"] + _wider(among) * (end - row["delta"]) for end in (low, high))
    if _finite(p := row.get("delta_p", math.nan)) and p > MISSED:
        return "unclear"
    if high < 0:
        return "fell"
    return "rose" if low > 0 else "unclear"


def clear(rows: list[dict[str, Any]], way: str) -> list[dict[str, Any]]:
    """Those of so many rows that clearly moved one way, any of which may be named."""
    return [row for row in rows if direction(row, len(rows)) == way]


FREEDOM = 10
"""Degrees of freedom that intervals are taken to have, of some ten words or trials."""
FOUR_OF_FIVE = 0.9
"""Errors by which a change must lie beyond the end of its interval: the 80 % point of Student's t,
.88, and a little for the noise of its width."""


@cache
def _quantile(among: int) -> float:
    """Of Student's t, for a 95 % interval where any of so many may be named (Bonferroni)."""
    return float(stdtrit(FREEDOM, 1 - MISSED / 2 / among))


def _wider(among: int) -> float:
    """By what factor 95 % intervals widen where any of so many may be named."""
    return _quantile(among) / _quantile(1)


def smallest_seen(row: Values, among: int, most: float = math.inf) -> float:
    """The smallest change that `direction` would have seen in four of five repeats; NaN without an
    interval.

    most: the largest there can be, where each item moves by that or not at all.
    """
    error, q = half_width(row) / _quantile(1), _quantile(among) + FOUR_OF_FIVE
    if not math.isfinite(most):
        return q * error
    return float(with_own_noise(q * error, q, most, row["n"]))


def could(
    rows: list[Any], among: int, most: float = math.inf, say: Callable[[float], str] | None = None
) -> str:
    """What would have been found in any of the rows, without a capital; "" without an interval.
    most: as of `smallest_seen`."""
    seen = [smallest_seen(row, among, most) for row in rows]
    if not (known := [size for size in seen if size > 0]):
        return ""
    return f"four of five repeats would have found a change of {(say or number)(max(known))}"


def pace(row: Values, dense: Values | None) -> str:
    """ "faster" or "slower" where a speedup differs from 1 by more than the dense model timed
    against itself, either way; "unclear"; "unknown" where untimed."""
    low, high = _of_median(row)
    if not (_finite(low) and _finite(high)):
        return "unknown"
    band = [1.0, *filter(math.isfinite, _of_median(dense or {}))]
    limit = max(max(band), 1 / min(band))
    return "faster" if low > limit else "slower" if high < 1 / limit else "unclear"


def _of_median(row: Values) -> tuple[float, float]:
    """About the 95 % interval of the median ratio of times, from its quartiles (McGill, Tukey and
    Larsen 1978). The quartiles of five rounds alone called 13 to 18 % of equal models unlike."""
    middle, low, high, n = (
        row.get(name, math.nan) for name in ("speedup", "speedup_low", "speedup_high", "n")
    )
    room = 1.57 * (high - low) / math.sqrt(n)
    return max(middle - room, 0.01), middle + room


def half_width(row: Values) -> float:
    """Half the width of the interval of a change."""
    return (row["delta_high"] - row["delta_low"]) / 2


def is_noise(row: Values) -> bool:
    """Whether a change is so small beside its interval that its own digits say nothing: a tenth of
    the half-width at most. An interval of no width is not noise."""
    return (
        direction(row) == "unclear"
        and abs(row["delta"]) <= half_width(row) / 10
        and half_width(row) > 0
    )


def change(row: Values, perplexity: bool = False, few: str = "prompts") -> str:
    """The change with its interval, and plainly why it is not clear; "no clear change" where it is
    mere noise, "no change" where every repeat gave none."""
    delta = row.get("delta", math.nan)
    if not _finite(delta):
        return "change not measured"
    kind = direction(row)
    if kind == "unknown":
        return f"{signed(delta, perplexity)}, {no_interval(few)}"
    if row["delta_low"] == row["delta_high"] == 0:
        return "no change"
    if is_noise(row):
        return f"no clear change, ±{number(half_width(row), perplexity)}"
    text = (
        f"{signed(delta, perplexity)}, 95 % interval"
        f" {span(row['delta_low'], row['delta_high'], perplexity)}"
    )
    return f"{text}{doubt(row, ', which ')}"


def doubt(row: Values, which: str = ", ") -> str:
    """Why a change with an interval is not clear, after a comma; "" where it is."""
    if direction(row) != "unclear":
        return ""
    if row["delta_low"] <= 0 <= row["delta_high"]:
        return f"{which}includes zero"
    return f", but chance gives as much (p = {number(row['delta_p'])})"


def inside_null(row: Values) -> bool:
    """Whether a bias is no larger than what shuffled subgroup labels give."""
    high = row.get("null_high", math.nan)
    return bool(_finite(high) and row["value"] <= high + SAME)


def null_side(row: Values) -> str:
    """Where a value lies: "below", "inside" or "above" its null band; "" where it has none."""
    low, high = row.get("null_low", math.nan), row.get("null_high", math.nan)
    if not (_finite(low) and _finite(high) and _finite(row["value"])):
        return ""
    return (
        "below"
        if row["value"] < low - SAME
        else "above"
        if row["value"] > high + SAME
        else "inside"
    )


def _finite(value: Any) -> bool:
    return value is not None and math.isfinite(value)


# Numbers as one says them aloud: two digits, small counts as words, "more than halves" for a
# ratio.


_COUNTS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def short(value: float) -> str:
    """Two digits, e.g. "0.47", "2.2", "340"; three where two would round a share below 1 up to
    1."""
    if not math.isfinite(value):
        return number(value)
    if not value or abs(value) >= 99.5:
        return number(value)
    digits = 3 if 0.995 <= abs(value) < 1 else 2
    text = f"{value:#.{digits}g}".rstrip(".")
    return (number(value) if "e" in text else text).replace("-", MINUS)


def apart(*values: float) -> list[str]:
    """The same, with a digit more where numbers that differ would read the same."""
    told = [short(value) for value in values]
    if len(set(told)) < len(set(values)):
        return [number(value) for value in values]
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
    return listing(groups)


def names(groups: Sequence[str]) -> str:
    """Groups in a sentence, of more than three the first two by name."""
    if len(groups) > 3:
        return listing([*groups[:2], f"{counted(len(groups) - 2)} more"])
    return listing(groups)
