"""A finished run as JSON and as a few lines of text, for the command line."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import pandas as pd

from engine.audit.tracks import track_of_run
from engine.core import words
from engine.core.text import one_line
from engine.core.types import Values
from engine.report.charts import lookup
from engine.report.charts.flips import flipped_said
from engine.report.contents import default_choice
from engine.store.runs import Run, RunSummary

# What a track's summary must say, and numbers as the command line prints them.


ORDERS = {"": "Yours first", "newest": "Newest first", "oldest": "Oldest first", "title": "Title"}


class Summary(ABC):
    """How the runs of one track are told in lines. Final subclasses live one per file and are
    found."""

    parts: tuple[str, ...]
    """Parts of run.json that the JSON form repeats."""
    columns: tuple[str, ...]
    """Columns of the variants table beside each result."""
    more: tuple[str, ...] = ()
    """Columns of the results table beside the numbers."""

    @abstractmethod
    def lines(self, run: Run) -> list[str]:
        """One block per axis: the dense model, then each reported variant."""


def ends(low: float, high: float, form: str) -> str:
    """An interval, e.g. "[0.1, 0.2]"."""
    return (
        "(no interval)" if math.isnan(low) or math.isnan(high) else f"[{low:{form}}, {high:{form}}]"
    )


def changed(row: Any) -> str:
    """A change with its interval; "" where none is known."""
    if math.isnan(row.delta):
        return ""
    return f"{row.delta:+.3f} {ends(row.delta_low, row.delta_high, '+.3f')}"


def number(value: float, form: str) -> str:
    return "none" if math.isnan(value) else f"{value:{form}}"


def paid_most(rows: pd.DataFrame) -> str:
    """The subgroup with the lowest change, "" for the dense model."""
    known = rows[rows["delta"].notna()]
    if known.empty:
        return ""
    most = known.loc[known["delta"].idxmin()]
    return f"  {most.group} {changed(most)}"


def searched(summaries: Sequence[RunSummary], text: str, order: str) -> list[RunSummary]:
    """Audits that hold a text in title, model, axes or methods as a reader sees them, in one of
    ORDERS."""
    title = {one.id: words.title_said(one.title, one.axes) for one in summaries}
    found = []
    for one in summaries:
        named = [*map(words.axis_name, one.axes), *map(words.method_name, one.methods)]
        if text.casefold() in "\n".join([title[one.id], one.model, *named]).casefold():
            found.append(one)
    if order == "title":
        return sorted(found, key=lambda one: title[one.id].casefold())
    if order:
        found.sort(key=lambda one: one.created, reverse=order == "newest")
    return found


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


def _of(run: Run) -> Summary:
    return track_of_run(run).part("summary")()


def summary_of(run: Run) -> Values:
    """JSON-able: request, model, warnings, what the track adds, and the test results of every
    reported variant."""
    meta, variants, results, own = run.meta, run.table("variants"), run.table("results"), _of(run)
    chosen = variants.loc[variants["chosen"], ["variant", *own.columns]]
    reported = results[results["split"] == "test"].merge(chosen, on="variant")
    keep = ["variant", *own.columns, "axis", "metric", *own.more, *SHOWN]
    keep = [name for name in keep if name in reported]  # runs of earlier versions hold fewer
    return {
        "run": run.id,
        "title": meta["title"],
        **{part: meta[part] for part in own.parts},
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
    """Title and warnings, what was added when, the track's lines, then what flipped."""
    warnings = (
        f"! {warning}" for warning in [*run.meta["warnings"], *run.damaged_additions.values()]
    )
    added = (
        f"+ {one.meta['created'][:19]} added {one.id}: {one_line(one.meta['title'])}"
        for one in run.added
    )
    head, flips = f"run {run.id}: {one_line(run.meta['title'])}", _flips(run)
    told = ["\nflips", *(f"  {name:<44} {text}" for name, text in flips.items())] if flips else []
    return "\n".join([head, *warnings, *added, *_of(run).lines(run), *told])


def _plain(row: Values) -> Values:
    """JSON has no NaN."""
    return {
        name: None if isinstance(value, float) and math.isnan(value) else value
        for name, value in row.items()
    }
