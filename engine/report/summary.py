"""A finished run as JSON and as a few lines of text, for the command line."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from engine.audit.tracks import track_of_run
from engine.core import words
from engine.core.text import one_line
from engine.core.types import Values
from engine.report.charts import lookup
from engine.report.charts.flips import flipped_said
from engine.report.contents import default_choice, panels
from engine.report.tracks import Measure, track_of
from engine.store.runs import Run, RunSummary

ORDERS = {"": "Yours first", "newest": "Newest first", "oldest": "Oldest first", "title": "Title"}


@dataclass(frozen=True)
class Summary:
    """What the JSON form of a track's runs holds, apart by blanks.

    parts: of run.json. columns: of the variants table, beside each result. more: of the results.
    """

    parts: str
    columns: str
    more: str = "group verdict"


def searched(
    summaries: Sequence[RunSummary], text: str, order: str, first: Collection[str] = ()
) -> list[RunSummary]:
    """Audits that hold a text in title, model, axes or methods as a reader sees them, in one of
    ORDERS; those whose ids are in `first` before all others."""
    title = {one.id: words.title_said(one.title, one.axes) for one in summaries}
    found = []
    for one in summaries:
        named = [*map(words.axis_name, one.axes), *map(words.method_name, one.methods)]
        if text.casefold() in "\n".join([title[one.id], one.model, *named]).casefold():
            found.append(one)
    if order == "title":
        found.sort(key=lambda one: title[one.id].casefold())
    elif order:
        found.sort(key=lambda one: one.created, reverse=order == "newest")
    return sorted(found, key=lambda one: one.id not in first)


SHOWN = (
    "value",
    "low",
    "high",
    "n",
    "null_mean",
    "null_high",
    "null_p",
    "delta",
    "delta_low",
    "delta_high",
)


def summary_of(run: Run) -> Values:
    """JSON-able: request, model, warnings, what the track adds, and the test results of every
    reported variant."""
    meta, variants, results = run.meta, run.table("variants"), run.table("results")
    own: Summary = track_of_run(run).part("summary")
    columns = ["variant", *own.columns.split()]
    chosen = variants.loc[variants["chosen"], columns]
    reported = results[results["split"] == "test"].merge(chosen, on="variant")
    keep = [*columns, "axis", "metric", *own.more.split(), *SHOWN]
    keep = [name for name in keep if name in reported]  # runs of earlier versions hold fewer
    return {
        "run": run.id,
        "title": meta["title"],
        **{part: meta[part] for part in own.parts.split()},
        "added": [
            {name: one.meta[name] for name in ("id", "created", "asked")} for one in run.added
        ],
        "damaged": run.damaged_additions,
        "flips": _flips(run),
        "results": [_plain(row) for row in reported[keep].to_dict("records")],
    }


def _flips(run: Run) -> dict[str, str]:
    """Which answers each reported variant flipped, in a sentence: on the axis it aims at, else the
    first."""
    found = {}
    for row in lookup.reported(run).to_dict("records"):
        choice = default_choice(run, row.get("target_axis") or None, row["variant"])
        is_read = lookup.variant_of(run, choice)["variant"] == row["variant"]
        if said := is_read and flipped_said(run, choice):
            found[row["variant"]] = said
    return found


def summary_text(run: Run) -> str:
    """Title and warnings, what was added when, the numbers of every reported variant by axis, then
    what every chart says of the variant that a reader meets first."""
    warnings = map("! {}".format, [*run.meta["warnings"], *run.damaged_additions.values()])
    added = (
        f"+ {one.meta['created'][:19]} added {one.id}: {one_line(one.meta['title'])}"
        for one in run.added
    )
    numbers = [line for axis in run.request["axes"] for line in _numbers(run, axis)]
    readings = track_of(run).readings
    for name in readings.offered(run):
        if not readings.of(name).harm.per_axis:
            numbers += _numbers(run, run.request["axes"][0], name)
    told = (
        f"\n{panel.question}\n  {panel.said}" + f"\n  {panel.caveat}" * bool(panel.caveat)
        for panel in panels(run).values()
    )
    head = f"run {run.id}: {one_line(run.meta['title'])}"
    return "\n".join([head, *warnings, *added, *numbers, *told])


def _numbers(run: Run, axis: str, name: str = "") -> Iterator[str]:
    """A line per reported variant: its harm on the axis with interval, change and null band, its
    quality, who lost most, and what is wrong with it. name: a reading whose harm is of no axis."""
    choice, flags = default_choice(run, axis), track_of(run).flags
    choice, table = replace(choice, reading=name or choice.reading), lookup.reported(run)
    reading = lookup.reading(run, choice)
    about = reading.harm.name if name else f"{words.axis_name(axis)}  ({reading.harm.name}"
    yield f"\n{about}; {reading.quality.name}; who lost most{')' * (not name)}"
    table = table if name else lookup.of_axis(run, table, axis)
    for variant in table.to_dict("records"):
        rows = (
            (one, lookup.measured(run, variant["variant"], one, choice))
            for one in (reading.harm, reading.quality)
        )
        said = [_said(one, row) for one, row in rows if row]
        said += [_lost_most(run, variant["variant"], reading.group, axis), flags.of(variant)]
        yield f"  {variant['variant']:<44} {'; '.join(filter(None, said))}"


def _said(measure: Measure, row: Values) -> str:
    change = measure.brief(row) if math.isfinite(row["delta"]) else ""
    level = f"{measure.name} {measure.with_interval(row)}"
    return ", ".join(filter(None, (level, change, measure.null_said(row))))


def _lost_most(run: Run, variant: str, measure: Measure, axis: str) -> str:
    """The subgroup with the change that is furthest to the worse; "" for the dense model."""
    rows = lookup.groups_of(run, variant, measure.metric, axis)
    rows = rows[(rows["verdict"] == "") & rows["delta"].notna()]
    if rows.empty:
        return ""
    most = rows.loc[(measure.sign * rows["delta"]).idxmax()].to_dict()
    return f"{words.quoted(most['group'])} {measure.brief(most)}"


def _plain(row: Values) -> Values:
    """JSON has no NaN."""
    return {name: None if value != value else value for name, value in row.items()}
