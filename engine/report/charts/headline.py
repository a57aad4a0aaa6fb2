"""What a change is called, better or worse, and when nothing may be said of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from engine.core import words
from engine.core.types import Values
from engine.report import phrasing
from engine.report.charts.lookup import View
from engine.report.charts.panel import Choice
from engine.report.tracks import Measure
from engine.store.runs import Run


def kind_of(view: View, measure: Measure, row: Values) -> str:
    """Whether a change is "better", "worse", "no clear change" or "not compared"; "no verdict"
    where the uncut model has not learned its task.

    Of a harm that was no more than chance before the cut, only a rise above that is a change.
    """
    if view.track.telling.unlearned(view.run):
        return "no verdict"
    kind = claimed(view, measure, row)
    if kind in ("unclear", "unknown"):
        return "no clear change" if kind == "unclear" else "not compared"
    return "better" if kind == measure.better else "worse"


def claimed(view: View, measure: Measure, row: Values) -> str:
    """Which way a change goes, as `View.way` says it, where it may be claimed; else "unclear"."""
    kind, is_harm = view.way(measure, row), measure.metric == view.reading.harm.metric
    if kind == "unknown" or not (is_harm and view.was_chance):
        return kind
    return "unclear" if kind == measure.better or phrasing.inside_null(row) else kind


def null_warning(run: Run, choice: Choice) -> str:
    """What to say when the dense model's harm is no larger than chance gives; "" otherwise."""
    view = View(run, choice)
    dense, harm, means = view.dense, view.reading.harm, view.track.null.means
    if not means or dense is None or not view.was_chance:
        return ""
    return (
        f"The dense model's {harm.of(words.axis_name(choice.measured))} "
        f"({harm.number(dense['value'])}) lies inside its null band "
        f"({harm.span(dense['null_low'], dense['null_high'])}): at {int(dense['n']):,} "
        f"{harm.of_what or view.track.nouns.items} it could be chance alone. "
        f"{harm.null_means or means}"
    )


def ends_said(
    view: View, measure: Measure, rows: pd.DataFrame, named: Callable[[str], str] = words.quoted
) -> str:
    """What a measure says of the first and the last of the uncut model's groups, worst first, and
    whether that may be chance."""
    ends = rows.iloc[[0, -1]]
    each = map("{} for {}".format, phrasing.apart(*ends["value"]), map(named, ends["group"]))
    is_harm = measure.metric == view.reading.group.metric
    chance = ", which may be chance" * (is_harm and view.was_chance)
    return f"{measure.name} is {' and '.join(each)}{chance}"


MANY = 4
"""Times a value from which on both values are said, and no longer the share by which it rose."""


@dataclass(frozen=True)
class Moved:
    """Quoted names, the worst-off first, then the largest change. A group counts where its change
    is clear among all. `judged` is how many have enough of what is measured, of `groups` in all;
    `best_pays`: the uncut model's best-off is among the worse. `lost`, `gained`: the largest change
    as a share of what was. `alone`: those whose change for the worse is clear only if no other
    group is looked at. `seen`: a change that would have been seen in every group; NaN for none.
    """

    worse: tuple[str, ...]
    better: tuple[str, ...]
    judged: int
    groups: int
    best_pays: bool
    lost: float
    gained: float
    alone: tuple[str, ...]
    seen: float


@dataclass(frozen=True)
class Change:
    """A measure that a cut clearly changed; size: the change as a share of what was."""

    measure: Measure
    row: Values
    is_harm: bool

    @property
    def before(self) -> float:
        return float(self.row["value"] - self.row["delta"])

    @property
    def size(self) -> float:
        return _share(self.row)

    @property
    def verb(self) -> str:
        way = phrasing.direction(self.row)
        if self.measure.name.endswith("gap"):
            return "narrows" if way == "fell" else "widens"
        return phrasing.VERBS[way]

    def said(self, name: str, exact: bool) -> str:
        """E.g. "perplexity by 1.5 %", "AUC from 0.97 to 0.94"; name: another than the
        measure's."""
        name, after = name or self.measure.name, float(self.row["value"])
        if not exact:
            return name
        if self.measure.word.better == "lower" and after < MANY * self.before:
            return f"{name} by {phrasing.per_cent(after / self.before - 1)}"
        return f"{name} from {' to '.join(phrasing.apart(self.before, after))}"


def _share(row: Values) -> float:
    """A change as a share of what was; infinite where that was nothing."""
    before = abs(row["value"] - row["delta"])
    return abs(row["delta"]) / before if before > phrasing.SAME else float("inf")


def changes(view: View) -> list[Change]:
    """Clear changes of the harm, of what is measured over all groups and of the quality, the
    largest first."""
    reading, found = view.reading, []
    for measure in filter(None, (reading.harm, reading.mean, reading.quality)):
        row = view.row(measure)
        if row is not None and (kind := kind_of(view, measure, row)) in ("better", "worse"):
            found.append(Change(measure, row, kind == "worse"))
    return sorted(found, key=lambda change: -change.size)


def moved(view: View) -> Moved:
    """Which groups a variant clearly changed."""
    measure, table = view.reading.group, view.groups(known="delta")
    table = table.assign(was=measure.sign * (table["value"] - table["delta"]))
    worst, best = table["was"].max(), table["was"].min()
    rows = sorted(
        table.to_dict("records"), key=lambda row: (row["was"] != worst, -abs(row["delta"]))
    )
    worse, better = (phrasing.clear(rows, way) for way in (measure.worse, measure.better))
    alone = [row for row in rows if phrasing.direction(row) == measure.worse and row not in worse]
    return Moved(
        tuple(words.quoted(row["group"]) for row in worse),
        tuple(words.quoted(row["group"]) for row in better),
        len(rows),
        len(view.groups()),
        any(row["was"] == best for row in worse),
        max(map(_share, worse), default=0.0),
        max(map(_share, better), default=0.0),
        tuple(words.quoted(row["group"]) for row in alone),
        max(
            (phrasing.smallest_seen(row, view.judged, measure.most) for row in rows),
            default=math.nan,
        ),
    )
