"""The overview's sentence for a text classifier with heads cut: who paid, and whether it is a winning ticket."""

from __future__ import annotations

import math
from typing import Any

from engine import words
from engine.export import say
from engine.export.panels import classifier_headline
from engine.export.panels.base import Choice
from engine.export.panels.tickets_lookup import (
    LOST,
    TICKET,
    UNJUDGED,
    WON,
    few_seeds,
    groups_of_axis,
    measure_of,
    ticket_levels,
)
from engine.store.runs import Run


def sentence(run: Run, choice: Choice, variant: dict[str, Any]) -> str:
    """Who paid most and what became of the gap, then whether it is a ticket, and for whom not."""
    text = classifier_headline.sentence(run, choice, variant)
    return text if variant["variant"] == "dense" else f"{text} {ticket_said(run, choice, variant)}".strip()


def ticket_said(run: Run, choice: Choice, variant: dict[str, Any]) -> str:
    """Whether a variant is a ticket on all texts, with both means and deviations, and for whom it is none."""
    row = level_row(run, variant)
    if row is None:
        return ""
    measure = measure_of(run, "")
    n = say.count(int(row["n_seeds"]), "seed")
    mine, full = (spread(row[f"{which}mean"], row[f"{which}std"], measure) for which in ("", "full_"))
    levels = f"{measure.name} {mine} against {full} of the full model, {n}"
    start = {
        WON: "It is a winning ticket",
        LOST: "It is no ticket",
        UNJUDGED: "Whether it is a ticket is left open",
    }.get(row["state"], "It matches the full model, but was not trained from the pre-trained weights")
    lost = [group for group in groups_of_axis(run, choice.measured) if _lost(run, variant, choice.measured, group)]
    for_whom = ""
    if row["state"] in TICKET and lost:
        for_whom = f"; for {say.listing(words.quoted(group) for group in lost)} alone it is none"
    return f"{start} ({levels}){for_whom}."


def spread(mean: float, std: float, measure: Any) -> str:
    """Mean and standard deviation over seeds, e.g. "0.912 ± 0.010"; the mean alone of a single model."""
    return measure.number(mean) + ("" if math.isnan(std) else f" \u00b1 {say.number(std)}")


def level_row(run: Run, variant: dict[str, Any], axis: str = "", group: str = "") -> dict[str, Any] | None:
    """The row of ticket_levels about a pooled variant."""
    table = ticket_levels(run, axis, group)
    if table.empty:
        return None
    rows = table[(table["method"] == variant["method"]) & ((table["sparsity"] - variant["sparsity"]).abs() < 1e-9)]
    return None if rows.empty else rows.iloc[0].to_dict()


def _lost(run: Run, variant: dict[str, Any], axis: str, group: str) -> bool:
    row = level_row(run, variant, axis, group)
    return row is not None and row["state"] == LOST


def warnings(run: Run, choice: Choice, variant: dict[str, Any]) -> tuple[str, ...]:
    """Those of any classifier, and that few seeds make no ticket."""
    found = classifier_headline.warnings(run, choice, variant)
    few = few_seeds(run) if variant["variant"] != "dense" else ""
    return tuple(filter(None, (*found, few)))
