"""What a track's summary must say, and numbers as the command line prints them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import pandas as pd

from engine.core import words
from engine.store.runs import Run, RunSummary

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


def number(value: float, form: str) -> str:
    return "none" if math.isnan(value) else f"{value:{form}}"


def paid_most(rows: pd.DataFrame) -> str:
    """The subgroup with the lowest change, "" for the dense model."""
    known = rows[rows["delta"].notna()]
    if known.empty:
        return ""
    most = known.loc[known["delta"].idxmin()]
    return f"  {most.group} {most.delta:+.3f} {ends(most.delta_low, most.delta_high, '+.3f')}"


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
