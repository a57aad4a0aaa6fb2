"""What the tracks of classifiers share: readings per group, repeats behind a mean, limits,
takeaways."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import pandas as pd

from engine.core import words
from engine.core.types import Values
from engine.report import phrasing
from engine.report.charts import classifier_changed, lookup
from engine.report.charts.lookup import CLASS_AXIS, repeats, trials_said
from engine.report.charts.panel import Choice
from engine.report.tracks import (
    Comparison,
    Evidence,
    Flags,
    Front,
    FrontView,
    Measure,
    Nouns,
    Null,
    Reading,
    Readings,
    Telling,
    Track,
    track_of,
)
from engine.store.runs import Run, where

LIMITS = (
    "Only the harms, subgroups and {items} named here were assessed; others were not.",
    (
        "A smaller gap between subgroups does not prove that there is no harm: all may fare "
        "equally badly."
    ),
    "An interval that includes zero shows no clear change, but does not prove that there is none.",
)

BINDING_IMAGES = {
    "axes": "Another set of axes: only shared axes can be read side by side.",
    "data": "Other images: levels are not on one scale, and the null bands differ.",
    "images used": (
        "Another number of images per subgroup: intervals and null bands differ in width."
    ),
    "target": "Another target: the models tell other classes apart.",
    "changes": "The images were changed in another way, so the harm has another cause.",
    "size": "Another image size: FLOPs and what can be seen differ.",
    "model": "Another model: compare changes, not levels.",
    "method settings": "Methods with other settings: the same name, another procedure.",
}
"""Settings that any two runs of image classifiers must share to be compared."""


def middle(levels: Sequence[float], none: float) -> float:
    """The middle one of the levels that cut something, the smaller of two; `none` where there is
    none."""
    cut = sorted(level for level in levels if level > none)
    return cut[(len(cut) - 1) // 2] if cut else none


def in_order(
    methods: Iterable[str], parts: Callable[[str], Sequence[str]], *known: Sequence[str]
) -> list[str]:
    """Methods by the place of each of their parts among those that are known; others last, by
    name."""

    def place(method: str) -> tuple[Any, ...]:
        pairs = zip(parts(method), known, strict=True)
        return (*(order.index(one) if one in order else len(order) for one, order in pairs), method)

    return sorted(methods, key=place)


PARTS = (("model", "weight_hash"), ("data", "digest"))
"""What every audit of a classifier is given from outside."""


def screen(
    nouns: Nouns,
    binding: Mapping[str, str],
    null_band: str,
    flagged: str,
    marks: str,
    symbol: str = "x",
    swept: str = "",
    measures: str = "",
    **own: Any,
) -> Track:
    """A kind of audit of a classifier, each variant of which is the mean over several models.

    binding: as of `Comparison`; flagged, symbol: as of `flags`; marks: columns of the Pareto chart;
    swept: what else than the models it can show; own: the other fields of `Track`.
    """
    repeat, every = nouns.repeat, f" and {swept}" * bool(swept)
    views = {
        "test": FrontView(
            f"Mean of {repeat}s (reported)", "test", False, f"the mean over {repeat}s"
        ),
        "trials": FrontView(
            f"Every {repeat}{every}",
            "test",
            True,
            f"every {repeat}{every.replace('and ', 'and every ')} beside the means",
        ),
    }
    return Track(
        nouns=nouns,
        front=Front(pareto_question, views, marks, at_level=True),
        comparison=Comparison(binding, PARTS, (f"{nouns.items} used", "data"), measures),
        null=Null(made=null_band),
        flags=flags(repeat, flagged, symbol),
        flips=classifier_changed.flips,
        **own,
    )


def pareto_question(run: Run, choice: Choice) -> str:
    reading, axis = lookup.reading(run, choice), words.axis_name(choice.measured)
    return f"What does a smaller {reading.harm.name} of {axis} cost in {reading.quality.name}?"


def flags(repeat: str, said: str, symbol: str = "x") -> Flags:
    """Marks of means in which some model predicts one class only."""

    def one_class_only(variant: Values) -> str:
        wrong = int(variant.get("degenerate", 0))
        many = phrasing.count(wrong, repeat)
        return f"{many} predict{'s' * (wrong == 1)} one class only" if wrong else ""

    return Flags(one_class_only, symbol, said)


def data(run: Run) -> str:
    groups = [words.axis_name(group) for group in run.data["groups"]]
    return f"{run.data['name']} by {phrasing.listing(groups)}" if groups else run.data["name"]


def reading_of(items: str, name: str, metric: str = "") -> Reading:
    """A metric (`name` over all items, `metric` or the same per group), and its gap as the harm.
    AUC sees only in which order items are ranked, so accuracy is told beside it."""
    measure = partial(Measure, few=items)
    gap = measure(f"{metric or name}_gap")
    return Reading(
        name,
        harm=gap,
        gap=gap,
        worst=measure(f"worst_{metric or name}", names_group=True),
        best=measure(f"best_{metric or name}", names_group=True),
        quality=measure(name, per_axis=False),
        group=measure(metric or name),
        also="accuracy" if name == "auc" else "",
    )


def readings(
    names: tuple[str, ...],
    items: str,
    of: Callable[[str], Reading],
    own: Callable[[Run], tuple[str, ...]] | None = None,
) -> Readings:
    """Those of a classifier: beside one stand the others, rates and cross-entropy."""

    def details(reading: str) -> tuple[Measure, ...]:
        first, *others = map(of, dict.fromkeys((reading, *names)))
        more = [Measure(metric, few=items) for metric in ("tpr_gap", "fpr_gap")]
        rest = [part for one in others for part in (one.quality, one.harm)]
        entropy = Measure("cross_entropy", few=items, per_axis=False)
        found = (first.harm, first.quality, first.worst, first.best, *rest, *more, entropy)
        return tuple({measure.metric: measure for measure in found}.values())

    return Readings(names, of, details, own)


def mark(repeat: str, variant: Values) -> str:
    return f", {repeat} {variant['seed']}" if variant.get("seed", -1) >= 0 else ""


def measured_on(by_hand: str, run: Run, row: Values | None, split: str) -> str:
    """by_hand: in how many models a set that a person chose was measured; "" where in all."""
    nouns, often = track_of(run).nouns, f"{trials_said(run)} per method"
    if row is None or pd.isna(row["n"]):
        return f"{split} {nouns.items}, {often}"
    if words.is_by_hand(str(row.get("variant", ""))):
        often = by_hand or trials_said(run)
    return f"{phrasing.count(int(row['n']), f'{split} {nouns.item}')}, {often}"


def caveat(run: Run, choice: Choice, row: Values | None) -> str:
    return lookup.caveat(run, row, more=run.data.get("stand_in") or "")


def notes(run: Run) -> list[str]:
    data = run.data
    found = [*run.meta["warnings"], *(data.get("notes") or []), data.get("stand_in") or ""]
    return list(dict.fromkeys(filter(None, found)))


def limits(
    how_made: Sequence[str], more: Sequence[str], run: Run, short: bool = False
) -> list[str]:
    """how_made: how the numbers were made, for the report."""
    items = track_of(run).nouns.items
    return [
        *filter(None, [run.data.get("stand_in")]),
        *(() if short else how_made),
        f"AUC needs {items} of both classes: a subgroup with one class only has none, and is left"
        " out of gaps.",
        *(limit.format(items=items) for limit in LIMITS),
        *more,
    ]


def evidence(
    items: str, intervals: str, how_made: Sequence[str], more: Sequence[str] = (), by_hand: str = ""
) -> Evidence:
    """What numbers of a classifier rest on, which runs several times and is measured per group."""
    too_few = {
        f"too few {items}": f"too few {items} for a verdict",
        "one class only": f"{items} of one class only, so no verdict",
    }
    return Evidence(
        data,
        partial(measured_on, by_hand),
        intervals,
        too_few,
        caveat,
        notes,
        partial(limits, how_made, more),
    )


# The plain words in which audits of classifiers are told; a track adds what was done, and what it
# knows of groups.


CHANCE = "the mix of classes and chance alone"


def groups(run: Run, axis: str, invented: Mapping[str, Mapping[str, str]]) -> str:
    """The groups of an axis; invented: what is known of groups of the project's own data, by data
    and axis.

    A run of data that only bears such a name has no `stand_in`: nothing is said to be invented
    there.
    """
    data = run.data
    count = phrasing.counted(len(_names(run, axis)))
    if axis == CLASS_AXIS:
        return f"{count} classes of {data['name']}"
    known = invented.get(data["name"], {}).get(axis, "") if data.get("stand_in") else ""
    return (
        f"{count} {known}"
        if known
        else f"{count} groups of {words.axis_name(axis)} in {data['name']}"
    )


def harm(run: Run, choice: Choice) -> str:
    """The gap that is read, between the two groups by name or among more of them."""
    reading, names = lookup.reading(run, choice), _names(run, choice.measured)
    among = f"among the {phrasing.counted(len(names))} groups of {words.axis_name(choice.measured)}"
    if choice.measured == CLASS_AXIS:
        among = "among the classes"
    elif len(names) == 2:
        among = f"between {words.quoted(names[0])} and {words.quoted(names[1])}"
    return f"the {reading.harm.name} {among}"


def unlearned(run: Run) -> str:
    """Of a model that may be guessing, or answers one class only in every trial. AUC of a guess is
    one half, whatever the mix of classes is."""
    nouns, variants = track_of(run).nouns, lookup.named(run)
    row, found = lookup.result(run, "dense", "auc"), ""
    own = variants[(variants["variant"] == "dense") | (variants["pooled"] == "dense")]
    if row and (row["low"] if math.isfinite(row["low"]) else row["value"]) <= 0.5:
        found = f"could be guessing (AUC {phrasing.short(row['value'])})"
    elif own["degenerate"].iloc[0] >= max(1, len(own) - 1):
        found = f"predicts one class for every {nouns.item}"
    return found and f"The {nouns.whole} {found}: no verdict is given on any cut of it."


def more(run: Run, choice: Choice, variant: Values) -> str:
    """What must be read with any verdict: models that answer one class only, a level that was not
    reached, what intervals or gaps are of."""
    if variant["variant"] == "dense":
        return ""
    found = (
        degenerate_said(run, variant),
        missed_said(run, variant),
        _of(run, choice, variant),
    )
    return " ".join(filter(None, found))


def beside(run: Run, choice: Choice, variant: Values) -> list[tuple[str, str]]:
    """Of two classes, whose items the cut model takes for the other class clearly more often:
    accuracy can rise over false alarms."""
    names, axis, found = run.data["classes"], choice.measured, []
    if len(names) != 2 or CLASS_AXIS in axis.split("+") or lookup.is_predicted(variant):
        return []
    rows = where(lookup.frame(run, "groups"), variant=variant["variant"], axis=axis)
    rows = rows[rows["metric"].isin(["fpr", "tpr"]) & rows["delta"].notna()]
    rows = rows[rows["verdict"] == ""].to_dict("records")
    for metric, worse, own, other in (("fpr", "rose", *names), ("tpr", "fell", *names[::-1])):
        clear = [
            words.quoted(row["group"])
            for row in phrasing.clear(rows, worse)
            if row["metric"] == metric
        ]
        if clear:
            items = f"{words.quoted(own)} {track_of(run).nouns.items}"
            full = f"the share of {items} taken for {words.quoted(other)}"
            short = f"errors on {words.quoted(own)}"
            found.append((short, f"{full}, for {phrasing.names(clear)}"))
    both = "; ".join(full for _, full in found)
    return [("errors on either class", both)] if len(found) > 1 else found


def _of(run: Run, choice: Choice, variant: Values) -> str:
    """That one model's intervals are about its items alone; of several, which gap is told."""
    nouns, reading = track_of(run).nouns, lookup.reading(run, choice)
    if words.is_by_hand(str(variant["method"])) or lookup.is_predicted(variant):
        return ""
    if (models := repeats(run)) < 2:
        one = f"It is one {nouns.repeat}: intervals are about its {nouns.items},"
        return f"{one} and another may differ."
    if not reading.harm.metric.endswith("_gap") or int(variant.get("seed", -1)) >= 0:
        return ""
    metric = reading.group.metric
    change = "" if reading.harm.metric == f"{metric}_gap" else "changes of "
    what = f"{change}{words.metric_name(metric)}"
    return f"The gap is of mean {what} over {phrasing.count(models, nouns.repeat)}."


def degenerate_said(run: Run, variant: Values) -> str:
    """How many trials say nothing about what was cut."""
    wrong, trials = int(variant["degenerate"]), repeats(run)
    if not wrong:
        return ""
    nouns = track_of(run).nouns
    repeat = nouns.repeat
    of = f"{wrong} of {phrasing.count(trials, repeat)}" if variant["seed"] < 0 else f"This {repeat}"
    ends = "ends" if wrong == 1 else "end"
    return (
        f"{of} {ends} with a model that predicts one class for every {nouns.item}. It is "
        "marked in the charts and counts in the means here."
    )


_DRAWN = {"male": "ways of drawing invented faces", "skin": "skin tones of invented faces"}
FACES = {"avatars": _DRAWN, "avatars-gap": _DRAWN}
"""Axes of the faces that the project draws itself."""


def telling(
    does: Callable[[Run, Values], str],
    invented: Mapping[str, Mapping[str, str]],
    more: Callable[[Run, Choice, Values], str] = more,
) -> Telling:
    """The plain words of a classifier's audit; `invented` as `groups` reads it."""
    told = partial(groups, invented=invented)
    return Telling(does, told, harm, CHANCE, more=more, beside=beside, unlearned=unlearned)


def missed_said(run: Run, variant: Values) -> str:
    """That the level asked for was not reached; "" where it was."""
    if bool(variant.get("met", True)):
        return ""
    track = track_of(run)
    level = track.level
    return (
        f"The target of {level.say(variant[level.column])} was not met exactly: the model's"
        f" {track.nouns.many} are too coarse. Reached: {level.say(variant[level.realised])}."
    )


def _names(run: Run, axis: str) -> list[str]:
    """Groups of the axis that were measured, in the order of the table."""
    table = lookup.frame(run, "groups")
    rows = where(table, variant="dense", axis=axis, split=lookup.REPORTED)
    return list(dict.fromkeys(rows["group"]))
