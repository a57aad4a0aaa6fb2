"""How AUC and its gap between subgroups move as more filters are cut, for every method of the run."""

from __future__ import annotations

from engine import words
from engine.export.panels import lookup
from engine.export.panels.along import Curve, along
from engine.export.panels.base import Choice, Panel
from engine.store.runs import Run

STARS = "Stars mark speedups where a trial predicts one class only."


def gap_along_speedup(run: Run, choice: Choice) -> Panel:
    """The gap between subgroups against the speedup, every method, with the null band of the chosen one."""
    measure = lookup.reading(run, choice).harm
    curve = Curve(
        f"{measure.metric}_along_speedup",
        f"As more filters are cut, does the {measure.name} of {words.axis_name(choice.measured)} grow?",
        measure,
        measure.title,
        f"This run has no {measure.name} for this choice.",
        with_null=True,
        may_be_log=False,
        said=f"the {measure.name}",
    )
    row = lookup.harm(run, "dense", choice)
    return along(run, choice, curve, lookup.caveat(run, row, more=f"{words.NULL_BAND} {STARS}"))


def quality_along_speedup(run: Run, choice: Choice) -> Panel:
    """Quality on all images against the speedup, every method."""
    measure = lookup.reading(run, choice).quality
    curve = Curve(
        f"{measure.metric}_along_speedup",
        "As more filters are cut, how much worse does the model classify all images together?",
        measure,
        measure.title,
        f"This run has no {measure.name}.",
        may_be_log=False,
    )
    row = lookup.measured(run, "dense", measure, choice)
    return along(run, choice, curve, lookup.caveat(run, row, more=STARS))
