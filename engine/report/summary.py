"""A finished run as JSON and as a few lines of text, for the command line."""

from __future__ import annotations

import math
from typing import Any

from engine.audit.tracks import track_of_run
from engine.core.text import one_line
from engine.report.summaries import Summary
from engine.store.runs import Run

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


def summary_of(run: Run) -> dict[str, Any]:
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
        "results": [_plain(row) for row in reported[keep].to_dict("records")],
    }


def summary_text(run: Run) -> str:
    """Title and warnings, what was added when, then the track's lines."""
    warnings = (
        f"! {warning}" for warning in [*run.meta["warnings"], *run.damaged_additions.values()]
    )
    added = (
        f"+ {one.meta['created'][:19]} added {one.id}: {one_line(one.meta['title'])}"
        for one in run.added
    )
    return "\n".join(
        [f"run {run.id}: {one_line(run.meta['title'])}", *warnings, *added, *_of(run).lines(run)]
    )


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """JSON has no NaN."""
    return {
        name: None if isinstance(value, float) and math.isnan(value) else value
        for name, value in row.items()
    }
