"""The overview's sentence for a text classifier with heads cut: who paid, and whether it is a
winning ticket."""

from __future__ import annotations

import math
from typing import Any

from engine.core import words
from engine.core.ids import at_level
from engine.report import phrasing
from engine.report.charts import classifier_headline, lookup
from engine.report.charts.panel import Choice
from engine.store.runs import Run
from engine.tracks.text_classifiers import words as own
from engine.tracks.text_classifiers.panels.lookup import (
    LOST,
    TICKET,
    UNJUDGED,
    WON,
    few_seeds,
    groups_of_axis,
    measure_of,
    ticket_levels,
)


def sentence(run: Run, choice: Choice, variant: dict[str, Any]) -> str:
    """Who paid most and what became of the gap, then whether it is a ticket, and for whom not."""
    text = classifier_headline.sentence(run, choice, variant)
    if variant["variant"] == "dense":
        return text
    return " ".join(
        filter(None, (text, overall_said(run, choice, variant), ticket_said(run, choice, variant)))
    )


def ticket_said(run: Run, choice: Choice, variant: dict[str, Any]) -> str:
    """Whether a variant is a ticket on all texts, with both means and deviations, and for whom it
    is none."""
    row = level_row(run, variant)
    if row is None:
        return ""
    measure = measure_of(run, "")
    n = phrasing.count(int(row["n_seeds"]), "seed")
    mine, full = (
        spread(row[f"{which}mean"], row[f"{which}std"], measure) for which in ("", "full_")
    )
    levels = f"{measure.name} {mine} against {full} of the full model, {n}"
    start = {
        WON: "It is a winning ticket",
        LOST: "It is no ticket",
        UNJUDGED: "Whether it is a ticket is left open",
    }.get(
        row["state"], "It matches the full model, but was not trained from the pre-trained weights"
    )
    if row["state"] in TICKET:
        start += _but(run, row)
    lost = lost_groups(run, variant, choice.measured)
    for_whom = ""
    if row["state"] in TICKET and lost:
        for_whom = (
            f"; for {phrasing.listing(words.quoted(group) for group in lost)} alone it is none"
        )
    return f"{start} ({levels}){for_whom}."


def _but(run: Run, row: dict[str, Any]) -> str:
    """What a ticket owes to the spread of its seeds, and smaller shares that are none."""
    table = ticket_levels(run)
    mine = table[
        (table["method"] == row["method"])
        & (table["sparsity"] < row["sparsity"])
        & (table["state"] == LOST)
    ]
    parts = (
        [f"not at {phrasing.listing(map(phrasing.percent, mine['sparsity']))}"] if len(mine) else []
    )
    parts += ["here only because its seeds differ widely"] if row["by_spread"] else []
    return f", though {' and '.join(parts)}" if parts else ""


def overall_said(run: Run, choice: Choice, variant: dict[str, Any]) -> str:
    """The change on all texts, where it is clear; else ""."""
    measure = lookup.reading(run, choice).quality
    row = lookup.measured(run, variant["variant"], measure, choice)
    kind = "unknown" if row is None else phrasing.direction(row)
    if row is None or kind not in ("fell", "rose"):
        return ""
    verb = "falls" if kind == "fell" else "rises"
    before, after = (measure.number(value) for value in (row["value"] - row["delta"], row["value"]))
    return (
        f"On all texts {measure.name} {verb} from {before} to {after} (change"
        f" {measure.change(row)})."
    )


def spread(mean: float, std: float, measure: Any) -> str:
    """Mean and standard deviation over seeds, e.g. "0.912 ± 0.010"; the mean alone of a single
    model."""
    return measure.number(mean) + ("" if math.isnan(std) else f" \u00b1 {phrasing.number(std)}")


def level_row(
    run: Run, variant: dict[str, Any], axis: str = "", group: str = ""
) -> dict[str, Any] | None:
    """The row of ticket_levels about a pooled variant."""
    table = ticket_levels(run, axis, group)
    if table.empty:
        return None
    rows = table[
        (table["method"] == variant["method"]) & at_level(table["sparsity"], variant["sparsity"])
    ]
    return None if rows.empty else rows.iloc[0].to_dict()


def lost_groups(run: Run, variant: dict[str, Any], axis: str) -> list[str]:
    """Groups of the axis for which alone a variant is no ticket."""
    return [group for group in groups_of_axis(run, axis) if _lost(run, variant, axis, group)]


def _lost(run: Run, variant: dict[str, Any], axis: str, group: str) -> bool:
    row = level_row(run, variant, axis, group)
    return row is not None and row["state"] == LOST


def warnings(run: Run, choice: Choice, variant: dict[str, Any]) -> tuple[str, ...]:
    """The warnings of any classifier, and that few seeds, or seeds that came to the same model,
    make no ticket."""
    found = classifier_headline.warnings(run, choice, variant)
    if variant["variant"] == "dense":
        return tuple(found)
    row = level_row(run, variant)
    same = own.SAME_MODELS if row is not None and row["state"] == UNJUDGED else ""
    return tuple(filter(None, (*found, few_seeds(run) or same)))
