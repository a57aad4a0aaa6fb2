"""How a classifier's quality and the gap between its groups move as more is cut, for every arm of
the run."""

from __future__ import annotations

from engine.core import words
from engine.report.charts import lookup
from engine.report.charts.metric_curve import Curve, along
from engine.report.charts.panel import Choice, Panel
from engine.report.tracks import track_of
from engine.store.runs import Run


def gap_along(run: Run, choice: Choice) -> Panel:
    """The gap between subgroups along the slider, every arm, with the null band of the chosen
    one."""
    measure, track = lookup.reading(run, choice).harm, track_of(run)
    curve = Curve(
        f"{measure.metric}_along_{track.level.column}",
        f"As more {track.many} are cut, does the {measure.name} of"
        f" {words.axis_name(choice.measured)} grow?",
        measure,
        measure.title,
        f"This run has no {measure.name} for this choice.",
        with_null=True,
        may_be_log=False,
        said=f"the {measure.name}",
    )
    row = lookup.harm(run, "dense", choice)
    return along(
        run, choice, curve, lookup.caveat(run, row, more=f"{track.null.made} {track.flags.said}")
    )


def quality_along(run: Run, choice: Choice) -> Panel:
    """Quality on everything together along the slider."""
    measure, track = lookup.reading(run, choice).quality, track_of(run)
    curve = Curve(
        f"{measure.metric}_along_{track.level.column}",
        f"As more {track.many} are cut, how much worse does the model classify all {track.items}"
        " together?",
        measure,
        measure.title,
        f"This run has no {measure.name}.",
        may_be_log=False,
    )
    row = lookup.measured(run, "dense", measure, choice)
    return along(run, choice, curve, lookup.caveat(run, row, more=track.flags.said))
