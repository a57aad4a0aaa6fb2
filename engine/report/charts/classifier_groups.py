"""Who pays when a classifier is cut: AUC and accuracy of every subgroup, before and after."""

from __future__ import annotations

from engine.report.charts import lookup
from engine.report.charts.by_group import ByGroup, by_group
from engine.report.charts.classifier_lookup import axis_note
from engine.report.charts.panel import Choice, Panel
from engine.report.contract import Measure
from engine.report.tracks import track_of
from engine.store.runs import Run

_QUESTIONS = {
    "auc": (
        "Who pays? How well are the classes told apart in each subgroup, before and after the cut?"
    ),
    "accuracy": "How often is the model right about each subgroup?",
}


def paid_by_group(run: Run, choice: Choice) -> Panel:
    """The measure the reader chose, per subgroup."""
    return _panel(run, choice, lookup.reading(run, choice).group)


def accuracy_by_group(run: Run, choice: Choice) -> Panel:
    """Accuracy per subgroup: it needs no two classes, but a threshold."""
    return _panel(run, choice, Measure("accuracy", few=track_of(run).items))


def _panel(run: Run, choice: Choice, measure: Measure) -> Panel:
    what = measure.name
    about = ByGroup(
        key=f"{measure.metric}_by_group",
        question=_QUESTIONS[measure.metric],
        measure=measure,
        x_title=measure.title,
        absent=f"This run has no {what} per subgroup for this choice.",
        fell=lambda names, several: f"{names} {'lose' if several else 'loses'} {what}",
        rose=lambda names, several: f"{names} {'gain' if several else 'gains'} {what}",
    )
    return by_group(
        run,
        choice,
        about,
        lookup.caveat(
            run, None, more=f"n = test {track_of(run).items}. {axis_note(run, choice)}".strip()
        ),
    )
