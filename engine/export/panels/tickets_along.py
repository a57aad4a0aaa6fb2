"""How the gap between groups and the quality of a text classifier move as more heads are cut, for every arm."""

from __future__ import annotations

from engine import words
from engine.export.panels import lookup
from engine.export.panels.along import Curve, along
from engine.export.panels.base import Choice, Panel
from engine.store.runs import Run

CROSSES = "Crosses mark shares at which a seed's model predicts one class only."


def gap_along_sparsity(run: Run, choice: Choice) -> Panel:
    """The gap between subgroups against the share of heads cut, with the null band of the chosen arm."""
    measure = lookup.reading(run, choice).harm
    curve = Curve(
        f"{measure.metric}_along_sparsity",
        f"As more heads are cut, does the {measure.name} of {words.axis_name(choice.measured)} grow?",
        measure,
        measure.title,
        f"This run has no {measure.name} for this choice.",
        with_null=True,
        may_be_log=False,
        said=f"the {measure.name}",
    )
    row = lookup.harm(run, "dense", choice)
    return along(run, choice, curve, lookup.caveat(run, row, more=f"{words.NULL_BAND_TEXTS} {CROSSES}"))


def quality_along_sparsity(run: Run, choice: Choice) -> Panel:
    """Quality on all texts against the share of heads cut."""
    measure = lookup.reading(run, choice).quality
    curve = Curve(
        f"{measure.metric}_along_sparsity",
        "As more heads are cut, how much worse does the model classify all texts together?",
        measure,
        measure.title,
        f"This run has no {measure.name}.",
        may_be_log=False,
    )
    row = lookup.measured(run, "dense", measure, choice)
    return along(run, choice, curve, lookup.caveat(run, row, more=CROSSES))
