"""What the tracks of classifiers share: readings per group, repeats behind a mean, limits,
takeaways."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from engine.core import words
from engine.core.types import Values
from engine.report import in_words, phrasing
from engine.report.charts import classifier_changed, lookup
from engine.report.charts.classifier_lookup import CLASS_AXIS, repeats, trials_said
from engine.report.charts.panel import Choice
from engine.report.tracks import Flags, Flips, Measure, Null, Reading, Track, track_of
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


class ClassifierTrack(Track):
    """A classifier whose arms run several times (`repeat`) and are measured per group of
    `items`."""

    null = Null(made=words.NULL_BAND)
    not_built = "Not finished for this axis"
    how_made: Sequence[str]
    """How the numbers were made, for the report."""
    more_limits: Sequence[str] = ()

    def data(self, run: Run) -> str:
        groups = [words.axis_name(group) for group in run.data["groups"]]
        return f"{run.data['name']} by {phrasing.listing(groups)}" if groups else run.data["name"]

    @property
    def too_few(self) -> Mapping[str, str]:
        """Verdicts of groups that are not judged, in words."""
        return {
            f"too few {self.items}": f"too few {self.items} for a verdict",
            "one class only": f"{self.items} of one class only, so no verdict",
        }

    @property
    def auc_limit(self) -> str:
        return (
            f"AUC needs {self.items} of both classes: a subgroup with one class only has none, "
            "and is left out of gaps."
        )

    def repeats_said(self, run: Run) -> str:
        """How often every arm was run, e.g. "3 trials"."""
        return trials_said(run)

    def by_hand_said(self, run: Run) -> str:
        """How many models a set that a person chose was measured in."""
        return self.repeats_said(run)

    def measure(self, metric: str, **more: Any) -> Measure:
        return Measure(metric, few=self.items, **more)

    def group_metric(self, reading: str) -> str:
        """What a reading measures per group."""
        return reading

    def reading(self, name: str) -> Reading:
        metric = self.group_metric(name)
        gap = self.measure(f"{metric}_gap")
        return Reading(
            name,
            harm=gap,
            gap=gap,
            worst=self.measure(f"worst_{metric}", names_group=True),
            best=self.measure(f"best_{metric}", names_group=True),
            quality=self.measure(name, per_axis=False),
            group=self.measure(metric),
        )

    def details(self, reading: str) -> tuple[Measure, ...]:
        first, *others = (
            self.reading(name)
            for name in (reading, *(one for one in self.readings if one != reading))
        )
        more = [self.measure(metric) for metric in ("tpr_gap", "fpr_gap")]
        rest = [part for one in others for part in (one.quality, one.harm)]
        entropy = self.measure("cross_entropy", per_axis=False)
        found = (first.harm, first.quality, first.worst, first.best, *rest, *more, entropy)
        return tuple({measure.metric: measure for measure in found}.values())

    def mark(self, variant: Values) -> str:
        return f", {self.repeat} {variant['seed']}" if variant.get("seed", -1) >= 0 else ""

    def measured_on(self, run: Run, row: Values | None, split: str) -> str:
        n, by_hand = f"{split} {self.items}", False
        if row is not None and not pd.isna(row["n"]):
            n = phrasing.count(int(row["n"]), f"{split} {self.item}")
            by_hand = words.is_by_hand(str(row.get("variant", "")))
        return (
            f"{n}, {self.by_hand_said(run) if by_hand else f'{self.repeats_said(run)} per method'}"
        )

    def flips(self, run: Run, choice: Choice, trial: int | None) -> Flips | None:
        return classifier_changed.flips(run, choice, trial)

    def caveat(self, run: Run, choice: Choice, row: Values | None) -> str:
        return lookup.caveat(run, row, more=run.data.get("stand_in") or "")

    def notes(self, run: Run) -> list[str]:
        data = run.data
        found = [*run.meta["warnings"], *(data.get("notes") or []), data.get("stand_in") or ""]
        return list(dict.fromkeys(filter(None, found)))

    def limits(self, run: Run, short: bool = False) -> list[str]:
        how = () if short else self.how_made
        limits = (*(limit.format(items=self.items) for limit in LIMITS), *self.more_limits)
        return [*filter(None, [run.data.get("stand_in")]), *how, self.auc_limit, *limits]


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
    count = in_words.counted(len(_names(run, axis)))
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
    among = f"among the {in_words.counted(len(names))} groups of {words.axis_name(choice.measured)}"
    if choice.measured == CLASS_AXIS:
        among = "among the classes"
    elif len(names) == 2:
        among = f"between {words.quoted(names[0])} and {words.quoted(names[1])}"
    return f"the {reading.harm.name} {among}"


def unlearned(run: Run) -> str:
    """AUC of a guess is one half, whatever the mix of classes is."""
    row = lookup.result(run, "dense", "auc")
    if row is None or not math.isfinite(row["value"]):
        return ""
    if (row["low"] if math.isfinite(row["low"]) else row["value"]) > 0.5:
        return ""
    return (
        f"The {track_of(run).whole} could be guessing (AUC {in_words.short(row['value'])}): no "
        "verdict is given on any cut of it."
    )


def more(run: Run, choice: Choice, variant: Values) -> str:
    """What must be read with any verdict: models that answer one class only, a level that was not
    reached, what intervals or gaps are of."""
    if variant["variant"] == "dense":
        return ""
    found = (
        degenerate_said(run, variant),
        missed_said(run, variant),
        *_mistaken(run, choice, variant),
        _of(run, choice, variant),
    )
    return " ".join(filter(None, found))


def _mistaken(run: Run, choice: Choice, variant: Values) -> Iterator[str]:
    """Of two classes, whose items the cut model takes for the other class clearly more often:
    accuracy can rise over false alarms."""
    names, axis = run.data["classes"], choice.measured
    if len(names) != 2 or CLASS_AXIS in axis.split("+") or lookup.is_predicted(variant):
        return
    rows = where(lookup.frame(run, "groups"), variant=variant["variant"], axis=axis)
    rows = rows[rows["metric"].isin(["fpr", "tpr"]) & rows["delta"].notna()].to_dict("records")
    for metric, worse, own, other in (("fpr", "rose", *names), ("tpr", "fell", *names[::-1])):
        clear = [
            words.quoted(row["group"])
            for row in rows
            if row["metric"] == metric and phrasing.direction(row, len(rows)) == worse
        ]
        if clear:
            items, whose = track_of(run).items, in_words.names(clear)
            yield (
                f"More {words.quoted(own)} {items} of {whose} are taken for {words.quoted(other)}."
            )


def _of(run: Run, choice: Choice, variant: Values) -> str:
    """That one model's intervals are about its items alone; of several, which gap is told."""
    track, reading = track_of(run), lookup.reading(run, choice)
    if words.is_by_hand(str(variant["method"])) or lookup.is_predicted(variant):
        return ""
    if (models := repeats(run)) < 2:
        one = f"It is one {track.repeat}: intervals are about its {track.items},"
        return f"{one} and another may differ."
    if not reading.harm.metric.endswith("_gap") or int(variant.get("seed", -1)) >= 0:
        return ""
    metric = reading.group.metric
    change = "" if reading.harm.metric == f"{metric}_gap" else "changes of "
    what = f"{change}{words.metric_name(metric)}"
    return f"The gap is of mean {what} over {phrasing.count(models, track.repeat)}."


def degenerate_said(run: Run, variant: Values) -> str:
    """How many trials say nothing about what was cut."""
    wrong, trials = int(variant["degenerate"]), repeats(run)
    if not wrong:
        return ""
    repeat = track_of(run).repeat
    of = f"{wrong} of {phrasing.count(trials, repeat)}" if variant["seed"] < 0 else f"This {repeat}"
    ends = "ends" if wrong == 1 else "end"
    return (
        f"{of} {ends} with a model that predicts one class for every {track_of(run).item}. It is "
        "marked in the charts and counts in the means here."
    )


def missed_said(run: Run, variant: Values) -> str:
    """That the level asked for was not reached; "" where it was."""
    if bool(variant.get("met", True)):
        return ""
    track = track_of(run)
    level = track.level
    return (
        f"The target of {level.say(variant[level.column])} was not met exactly: the model's"
        f" {track.many} are too coarse. Reached: {level.say(variant[level.realised])}."
    )


def _names(run: Run, axis: str) -> list[str]:
    """Groups of the axis that were measured, in the order of the table."""
    table = lookup.frame(run, "groups")
    rows = where(table, variant="dense", axis=axis, split=lookup.REPORTED)
    return list(dict.fromkeys(rows["group"]))
