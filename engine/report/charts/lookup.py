"""Reading a run's tables: the variant a choice means, one result, the sentence about how it was
measured."""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, wraps
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import pandas as pd

from engine.core import words
from engine.core.errors import RequestError, unknown
from engine.core.types import Values, at_level, is_level
from engine.report import phrasing
from engine.report.charts.panel import Choice
from engine.report.palette import Style, quiet
from engine.report.tracks import Measure, Reading, Track, benchmarks_of, track_of
from engine.store.runs import Run, where

REPORTED = "test"
_REMEMBERED = 500
Found = TypeVar("Found")


@lru_cache(maxsize=64)
def _read(
    path: Path, additions: tuple[Path, ...], name: str, content: tuple[str, ...]
) -> pd.DataFrame:
    return Run(path, additions).table(name)


def frame(run: Run, name: str) -> pd.DataFrame:
    """A table of the run, read once per content. Shared: callers must not change it in place."""
    content = () if run.ahead else run.content(name)
    return _read(run.path, run.additions, name, content) if content else run.table(name)


def table(run: Run, name: str, columns: str) -> pd.DataFrame:
    """A table as `frame` gives it; where the run has none, an empty one with these columns."""
    if run.has(name):
        return frame(run, name)
    return pd.DataFrame(columns=columns.split(), dtype=float)


def remembered(*tables: str) -> Callable[[Callable[..., Found]], Callable[..., Found]]:
    """For a function of (run, *names) that reads no other table: what it finds, never None, is kept
    once per content for every session. Tables, lists and rows are given out as copies, other things
    must not be changed.
    """

    def wrap(find: Callable[..., Found]) -> Callable[..., Found]:
        kept: OrderedDict[Hashable, Any] = OrderedDict()

        @wraps(find)
        def found(run: Run, *given: Any) -> Any:
            content = tuple(map(run.content, tables)), str(run.meta.get("gamma"))
            key = (run.path, run.additions, content, run.ahead, given)
            value = kept.get(key)
            if value is None:
                value = kept[key] = find(run, *given)
                if len(kept) > _REMEMBERED:
                    kept.popitem(last=False)
            if isinstance(value, pd.DataFrame):
                return value.copy(deep=False)
            return value.copy() if isinstance(value, list | dict) else value

        return found

    return wrap


@remembered("variants")
def reported(run: Run) -> pd.DataFrame:
    """Variants to report: the dense model and the chosen ones."""
    table = frame(run, "variants")
    return table[table["chosen"].astype(bool)]


def pooled(run: Run) -> pd.DataFrame:
    """Variants to report but the dense model."""
    table = reported(run)
    return table[table["method"] != "dense"]


def look_of(run: Run, choice: Choice, method: str) -> Style:
    """How a method looks where methods are compared: the chosen one, and the dense model, in their
    colour, the others grey and told apart by their symbols, dashes and names."""
    style = track_of(run).methods.style(method, choice.dark)
    is_strong = method in ("dense", choice.method) or choice.method in ("", "dense")
    return style if is_strong else quiet(style, choice.dark)


def looks_of(run: Run, choice: Choice, table: pd.DataFrame) -> dict[str, Style]:
    """How the methods of a table look beside each other, in the order of the track."""
    known = track_of(run).methods.order(table["method"].unique())
    return {method: look_of(run, choice, method) for method in known}


def of_axis(run: Run, table: pd.DataFrame, axis: str) -> pd.DataFrame:
    """Variants aimed at the axis, and those aimed at none: of these, where γ was searched, the ones
    at the axis' γ*.

    All of them in a run whose variants aim at no axis."""
    if "target_axis" not in table:
        return table
    table = table[table["target_axis"].isin(["", axis])]
    if (gamma := (run.meta.get("gamma") or {}).get(axis)) is None:
        return table
    is_other = table["gamma"].notna() & ~at_level(table["gamma"], gamma)
    return table[~((table["target_axis"] == "") & is_other)]


@remembered("variants")
def levels(run: Run, method: str, axis: str) -> list[float]:
    """Asked levels for which this method has a reported variant, that of the dense model first."""
    level = track_of(run).level
    return sorted({level.none, *map(float, _of_method(run, method, axis)[level.column])})


@remembered("variants")
def methods(run: Run, axis: str | None = None) -> list[str]:
    """Methods with reported variants (without "dense"), in the order of the track."""
    table = reported(run) if axis is None else of_axis(run, reported(run), axis)
    return track_of(run).methods.order(name for name in table["method"].unique() if name != "dense")


def not_built(run: Run, axis: str) -> str:
    """Which methods the run was asked for have no variant for this axis, and why, in a sentence; ""
    where all do."""
    here = methods(run, axis)
    asked = dict.fromkeys([*run.request.get("methods", ()), *methods(run)])
    missing = [words.method_name(name) for name in asked if name not in here]
    return f"{track_of(run).methods.not_built}: {', '.join(missing)}." if missing else ""


def not_finished(run: Run, choice: Choice) -> str:
    """Which levels of the request are not finished for this method, in a sentence; "" where all
    are."""
    level, ways = track_of(run).level, track_of(run).ways
    if choice.method in ways.uncut or ways.own_levels(choice.method):
        return ""
    finished = levels(run, choice.method, choice.axis)
    asked = [float(value) for value in run.request[level.asked]]
    missing = [level.say(value) for value in asked if not is_level(value, finished)]
    return f"Not finished for this method: {', '.join(missing)}." if missing else ""


@remembered("variants")
def variant_of(run: Run, choice: Choice) -> Values:
    """The variant a choice names, else the reported one it means; of several seeds the lowest.

    The level of the dense model or method "dense" is the dense model. RequestError names the known
    methods or levels.
    """
    table, level = frame(run, "variants"), track_of(run).level
    mine = _of_method(run, choice.method, choice.axis)
    rows = mine[at_level(mine[level.column], choice.level)]
    none = choice.level == level.none and choice.method not in track_of(run).ways.uncut
    # Another checkpoint that is no smaller is a variant of its own at the dense model's level.
    if choice.method == "dense" or (none and rows.empty):
        return table[table["variant"] == "dense"].iloc[0].to_dict()
    if choice.method not in methods(run):
        raise RequestError(unknown("method", choice.method, methods(run)))
    if rows.empty:
        known = [level.say(value) for value in levels(run, choice.method, choice.axis)]
        raise RequestError(unknown(level.noun, level.say(choice.level), known))
    for row in table[table["variant"] == choice.variant].to_dict("records"):
        is_same = (row["method"], row[level.column]) == (choice.method, choice.level)
        if is_same and row.get("target_axis") in (None, "", choice.axis):
            return row
    return rows.sort_values(["seed", "variant"]).iloc[0].to_dict()


def is_change(table: pd.DataFrame) -> pd.Series:
    """Which rows of a variants table, or of one joined with it, are more than the dense model:
    something is cut, or something else stands in its place (bools)."""
    return (table["n_cut"] > 0) | stands_instead(table)


def stands_instead(table: pd.DataFrame) -> pd.Series:
    """Which rows are models of their own that stand in the dense one's place (bools)."""
    if "arm" not in table:
        return pd.Series(False, index=table.index)
    return table["arm"].fillna("").astype(str) != ""


@remembered("variants")
def _of_method(run: Run, method: str, axis: str) -> pd.DataFrame:
    table = of_axis(run, reported(run), axis)
    return table[table["method"] == method]


def result(
    run: Run, variant: str, metric: str, axis: str = "", split: str = REPORTED
) -> Values | None:
    """One row of the results, or None where it was not measured."""
    place = _places(run).get((variant, metric, split, axis))
    return None if place is None else frame(run, "results").iloc[place].to_dict()


@remembered("results")
def _places(run: Run) -> Mapping[tuple[str, str, str, str], int]:
    """Position of the first row of the results by (variant, metric, split, axis)."""
    table = frame(run, "results")
    columns = [table[name] for name in ("variant", "metric", "split", "axis")]
    found: dict[tuple[str, str, str, str], int] = {}
    for place, key in enumerate(zip(*columns, strict=True)):
        found.setdefault(key, place)
    return MappingProxyType(found)


def reading(run: Run, choice: Choice) -> Reading:
    """The measures of harm and quality the choice reads by."""
    return track_of(run).readings.of(choice.reading)


def measured(
    run: Run, variant: str, measure: Measure, choice: Choice, split: str = REPORTED
) -> Values | None:
    """The row of a measure, on the axis the choice reads where it has one."""
    return result(run, variant, measure.metric, choice.measured if measure.per_axis else "", split)


def results_of(run: Run, measure: Measure, choice: Choice, split: str = REPORTED) -> pd.DataFrame:
    """A row per variant that a measure was taken of, on the axis the choice reads."""
    axis = choice.measured if measure.per_axis else ""
    rows = where(frame(run, "results"), metric=measure.metric, axis=axis, split=split)
    return rows.drop(columns=["metric", "axis", "split"])


def harm(run: Run, variant: str, choice: Choice, split: str = REPORTED) -> Values | None:
    """The row of the harm the choice reads by: bias, or a gap between groups."""
    return measured(run, variant, reading(run, choice).harm, choice, split)


def bias(run: Run, variant: str, choice: Choice) -> Values | None:
    return result(run, variant, f"bias:{choice.reading}", choice.measured)


@remembered("groups")
def groups_of(
    run: Run, variant: str, metric: str, axis: str, split: str = REPORTED
) -> pd.DataFrame:
    """Rows of the groups table, one per subgroup."""
    return where(frame(run, "groups"), variant=variant, metric=metric, axis=axis, split=split)


def title_of(run: Run) -> str:
    """A run's title with its axes in words."""
    return words.title_said(run.meta["title"], run.request["axes"])


def cut_units(variant: Values) -> list[int]:
    return [int(unit) for unit in json.loads(variant["cut"])]


def takable(run: Run, variant: Values) -> dict[str, str]:
    """What can be exported of a reported variant, id -> label: itself, or the trials of which it is
    the mean. Each of them has a mask and weights of its own."""
    told = track_of(run).variants
    rows = trials_behind(run, variant).to_dict("records")
    trials = {row["variant"]: f"{variant_label(run, row)}{told.mark(row)}" for row in rows}
    return trials or {str(variant["variant"]): told.label(variant)}


def trials_behind(run: Run, variant: Values) -> pd.DataFrame:
    """Variants that are the trials of which this one is the mean, by their number; none where it is
    no mean."""
    table = frame(run, "variants")
    if "pooled" not in table:
        return table[:0]
    mine = (table["pooled"] == variant["variant"]) & (table["seed"] >= 0)
    return table[mine].sort_values("seed")


def named(run: Run) -> pd.DataFrame:
    """Variants that may be asked for by id: the reported ones, and the trials behind means."""
    return frame(run, "variants") if "pooled" in frame(run, "variants") else reported(run)


def variant_label(run: Run, variant: Values) -> str:
    """A variant in words, e.g. "FASP, 20 % cut"; said where it is predicted, and where chance alone
    gives the ranking that chose it."""
    if variant["variant"] == "dense":
        return track_of(run).nouns.whole
    marks = " (predicted)" * is_predicted(variant)
    marks += " (ranking not supported)" * is_by_noise(run, variant)
    return track_of(run).variants.label(variant) + marks


def is_by_noise(run: Run, variant: Values) -> bool:
    """Whether a method ranked heads by their effect on a harm of the dense model that chance alone
    explains. A cut drawn at random, which has a seed, ranks nothing."""
    axis = variant.get("target_axis")
    if not axis or variant["seed"] >= 0:
        return False
    reading = run.request.get("reading", Choice.reading)
    row = harm(run, "dense", Choice("dense", axis, 0.0, reading=reading))
    return row is not None and phrasing.inside_null(row)


def is_predicted(variant: Values) -> bool:
    """Whether a row of the variants, or one that was joined with it, is of a variant that nobody
    measured."""
    return bool(variant.get("predicted", False))


def symbols(table: pd.DataFrame, symbol: str) -> str | list[str]:
    """The symbol of points: hollow for those that are predicted."""
    if "predicted" not in table or not table["predicted"].any():
        return symbol
    hollow = f"{symbol.removesuffix('-open')}-open"
    return [hollow if found else symbol for found in table["predicted"]]


def labels(run: Run, table: pd.DataFrame) -> list[str]:
    """What each row's variant is, in words."""
    return [variant_label(run, row) for row in table.to_dict("records")]


def method_label(run: Run, method: str) -> str:
    """A method in words; the uncut model by the name this track gives it."""
    return track_of(run).nouns.whole if method == "dense" else words.method_name(method)


def amount(run: Run, variant: Values) -> str:
    """How much was cut, asked and realised, e.g. "6 of 32 heads (18.8 %; asked 20 %)"."""
    return track_of(run).variants.amount(run, variant)


def measured_on(run: Run, row: Values | None, split: str = REPORTED) -> str:
    """How a number was measured: on how many prompts or images, how often, judged by which
    model."""
    return track_of(run).evidence.measured_on(run, row, split)


def caveat(run: Run, row: Values | None, split: str = REPORTED, more: str = "") -> str:
    """The line under a chart made from such numbers."""
    tests = benchmarks_of(run)
    intervals = (tests.intervals(row) if tests else "") or track_of(run).evidence.intervals
    return f"Measured on {measured_on(run, row, split)}. {intervals} {more}".strip()


def level_of(run: Run, choice: Choice) -> float:
    """The chosen level; where nothing is cut, the one at which a reader starts."""
    level = track_of(run).level
    cut = sorted({float(value) for value in reported(run)[level.column] if value > level.none})
    return choice.level if choice.level > level.none or not cut else level.first(cut)


def level_said(run: Run, variant: Values) -> str:
    """The level of a variant; what it came to where it has levels of its own."""
    level = track_of(run).level
    own = track_of(run).ways.own_levels(variant["method"])
    return level.say(variant[level.realised if own else level.column])


@dataclass(frozen=True)
class View:
    """What a reader chose of a run, looked up once for all that is said of it. RequestError for an
    unknown method or level."""

    run: Run
    choice: Choice

    @cached_property
    def track(self) -> Track:
        return track_of(self.run)

    @cached_property
    def reading(self) -> Reading:
        return reading(self.run, self.choice)

    @cached_property
    def variant(self) -> Values:
        return variant_of(self.run, self.choice)

    @property
    def name(self) -> str:
        """The variant's id."""
        return str(self.variant["variant"])

    @property
    def is_dense(self) -> bool:
        return self.name == "dense"

    @property
    def is_predicted(self) -> bool:
        return is_predicted(self.variant)

    @cached_property
    def harm(self) -> Values | None:
        """The harm of the variant."""
        return self.row(self.reading.harm)

    @cached_property
    def dense(self) -> Values | None:
        """The harm of the dense model."""
        return self.row(self.reading.harm, "dense")

    @cached_property
    def judged(self) -> int:
        """How many groups have a change that can be judged: any of them may be named, so intervals
        of the ends picked among them are wider."""
        return len(self.groups(known="delta"))

    def way(self, measure: Measure, row: Values) -> str:
        """`phrasing.direction` of a change. The uncut model's worst-off and best-off group were
        picked among all, which it allows for."""
        picked = measure.metric in (self.reading.worst.metric, self.reading.best.metric)
        return phrasing.direction(row, self.judged if picked else 1)

    @property
    def is_whole(self) -> bool:
        """Whether the harm is one of all items together, as a benchmark's is, and not of groups."""
        return self.reading.group == self.reading.harm

    @property
    def was_chance(self) -> bool:
        """Whether the harm was no more than chance before the cut."""
        return self.dense is not None and phrasing.inside_null(self.dense)

    @property
    def wrong(self) -> str:
        """Why nothing can be said of the variant's numbers, in a sentence; "" where they hold."""
        telling = self.track.telling
        return telling.unlearned(self.run) or telling.unusable(self.run, self.variant)

    def row(self, measure: Measure, variant: str = "") -> Values | None:
        """What was measured of the variant, or of another one."""
        return measured(self.run, variant or self.name, measure, self.choice)

    def groups(self, variant: str = "", known: str = "") -> pd.DataFrame:
        """Rows of the groups table about the variant, or another one; known: only of groups that
        can be judged and have this column."""
        metric = self.reading.group.metric
        rows = groups_of(self.run, variant or self.name, metric, self.choice.measured)
        return rows[(rows["verdict"] == "") & rows[known].notna()] if known else rows


def views(run: Run, choice: Choice) -> list[View]:
    """What a verdict is about: what the choice reads, and what must be told beside that, where it
    was measured of groups and of all items."""
    view = View(run, choice)
    other = View(run, replace(choice, reading=view.reading.also or choice.reading))
    row = other.row(other.reading.quality)
    is_known = bool(view.reading.also and row and math.isfinite(row["value"]) and other.judged)
    return [view, other][: 1 + is_known]


# Reading the tables of a classifier's run, of images or texts: trials behind a choice, and which
# group paid most.


DENSE = "dense"
CLASS_AXIS = "class"
"""The axis whose subgroups are the classes."""


def trials_of(run: Run, choice: Choice) -> pd.DataFrame:
    """Variants that are the trials behind a choice, by their number; empty for the dense model."""
    return trials_behind(run, variant_of(run, choice))


def groups_in_order(run: Run, choice: Choice) -> list[str]:
    """Subgroups that may be compared, the one that starts worst off first."""
    view = View(run, choice)
    rows, first = view.groups(DENSE, known="value"), view.reading.group.sign < 0
    return rows.sort_values("value", ascending=first, kind="stable")["group"].tolist()


@dataclass(frozen=True)
class Paid:
    """Which subgroup paid most. `most`: its row; `clear`: its interval leaves out zero; `unclear`:
    the row of one whose change is lower still but may be chance."""

    most: dict[str, Any]
    clear: bool
    unclear: dict[str, Any] | None = None

    def doubt(self, measure: Measure) -> str:
        """What must be added where another subgroup may have paid more."""
        if self.unclear is None:
            return ""
        return (
            f"{words.quoted(self.unclear['group'])} may have lost more:"
            f" {measure.brief(self.unclear)}"
        )


def paid_most(table: pd.DataFrame) -> Paid | None:
    """Of subgroups that clearly lost the one that lost most; else the lowest change. None where
    nothing is known.

    Higher is better in every measure of a subgroup here.
    """
    rows = table[table["delta"].notna()].sort_values("delta", kind="stable").to_dict("records")
    if not rows:
        return None
    clear = phrasing.clear(rows, "fell")
    if not clear:
        return Paid(rows[0], False)
    return Paid(clear[0], True, rows[0] if rows[0]["group"] != clear[0]["group"] else None)


def axis_note(run: Run, choice: Choice) -> str:
    """What must be known about an axis before its numbers are compared."""
    two = len(run.data["classes"]) == 2
    if choice.measured == CLASS_AXIS and two and reading(run, choice).name == "auc":
        return (
            "With two classes, telling one from the other is one task: both have the same AUC. Read"
            " accuracy instead."
        )
    return ""


def repeats(run: Run) -> int:
    """How many models every arm has: trials, or seeds; one where variants are no means."""
    if "pooled" not in frame(run, "variants"):
        return 1
    request = run.request
    return int(request["trials"] if "trials" in request else request["seeds"])


def trials_said(run: Run) -> str:
    """E.g. "3 trials"."""
    return phrasing.count(repeats(run), track_of(run).nouns.repeat)
