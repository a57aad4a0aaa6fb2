"""What the tracks of classifiers share: readings per group, repeats behind a mean, limits,
takeaways."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from engine.core import words
from engine.report import phrasing
from engine.report.charts import classifier_changed, lookup
from engine.report.charts.classifier_lookup import trials_said
from engine.report.charts.panel import Choice
from engine.report.contract import Flags, Flips, Measure, Null, Reading, Track
from engine.store.runs import Run

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

    def one_class_only(variant: Mapping[str, Any]) -> str:
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
        groups = [words.axis_name(group) for group in run.meta["data"]["groups"]]
        return (
            f"{run.meta['data']['name']} by {phrasing.listing(groups)}"
            if groups
            else run.meta["data"]["name"]
        )

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

    def mark(self, variant: Mapping[str, Any]) -> str:
        return f", {self.repeat} {variant['seed']}" if variant.get("seed", -1) >= 0 else ""

    def measured_on(self, run: Run, row: Mapping[str, Any] | None, split: str) -> str:
        n, by_hand = f"{split} {self.items}", False
        if row is not None and not pd.isna(row["n"]):
            n = phrasing.count(int(row["n"]), f"{split} {self.item}")
            by_hand = words.is_by_hand(str(row.get("variant", "")))
        return (
            f"{n}, {self.by_hand_said(run) if by_hand else f'{self.repeats_said(run)} per method'}"
        )

    def flips(self, run: Run, choice: Choice, trial: int | None) -> Flips | None:
        return classifier_changed.flips(run, choice, trial)

    def caveat(self, run: Run, choice: Choice, row: dict[str, Any] | None) -> str:
        return lookup.caveat(run, row, more=run.meta["data"].get("stand_in") or "")

    def notes(self, run: Run) -> list[str]:
        data = run.meta["data"]
        found = [*run.meta["warnings"], *(data.get("notes") or []), data.get("stand_in") or ""]
        return list(dict.fromkeys(filter(None, found)))

    def limits(self, run: Run, short: bool = False) -> list[str]:
        how = () if short else self.how_made
        limits = (*(limit.format(items=self.items) for limit in LIMITS), *self.more_limits)
        return [*filter(None, [run.meta["data"].get("stand_in")]), *how, self.auc_limit, *limits]
