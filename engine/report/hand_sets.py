"""Sets of units that a person chose, as variants of a run: what they are called, which were kept,
how many were tried.

Each set is a method of its own with one variant; `chosen` once it was measured on test, and so
counts as reported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd
from scipy import stats

from engine.core.errors import Fault, RequestError
from engine.core.words import PREFIX, is_by_hand
from engine.report import phrasing
from engine.report.charts import lookup
from engine.stats.student import TAILS
from engine.store.runs import Run
from engine.store.tables import where

CutOf = Callable[[Mapping[str, Any]], Sequence[int] | None]
"""Flat units of a row of the variants table, ascending; None for one that stands for several cuts.
"""


def name_of(digest: str, name: str = "") -> str:
    """The variant of a set, and its method: by its name, else by the digest of its mask."""
    return f"{PREFIX}{name or digest[:8]}"


def variants_by_hand(run: Run) -> pd.DataFrame:
    """Rows of the variants table that stand for a set: tried or kept."""
    table = lookup.frame(run, "variants")
    return table[table["method"].map(is_by_hand) & (table["variant"] == table["method"])]


def kept_name(run: Run, units: Sequence[int], cut_of: CutOf) -> str:
    """What a set that was kept is called, "" where it was not: measured on another axis it is the
    same variant."""
    rows = variants_by_hand(run)
    kept = rows[rows["chosen"].astype(bool)].to_dict("records")
    found = (row["method"] for row in kept if list(cut_of(row) or ()) == sorted(units))
    return next(found, "").removeprefix(PREFIX)


def tried_variant(run: Run, units: Sequence[int], cut_of: CutOf) -> str | None:
    """The variant of this very set, tried or kept."""
    rows = variants_by_hand(run).to_dict("records")
    return next((row["variant"] for row in rows if list(cut_of(row) or ()) == sorted(units)), None)


def tried(run: Run) -> int:
    """How many sets were tried by hand on this run: the more, the better the best looks by
    chance."""
    return int(variants_by_hand(run)["cut"].nunique())


def check_taken(run: Run, name: str, units: Sequence[int], cut_of: CutOf, many: str) -> None:
    """RequestError where the name stands for another set of the run."""
    table = lookup.frame(run, "variants")
    rows = table[table["variant"] == name].to_dict("records")
    if rows and list(cut_of(rows[0]) or ()) != sorted(units):
        said = f"{name.removeprefix(PREFIX)!r} is another set of {many}."
        raise RequestError(Fault("name", said, "Give another name."))


def rows_by_hand(run: Run, metric: str, axis: str, split: str) -> pd.DataFrame:
    """Results of sets chosen by hand."""
    results = lookup.frame(run, "results")
    rows = results[
        results["variant"].isin(variants_by_hand(run)["variant"]) & (results["split"] == split)
    ]
    return where(rows, metric=metric, axis=axis)


def tried_said(
    run: Run, metric: str, axis: str, first: str, last: str, where: tuple[str, str]
) -> str:
    """How many sets were tried by hand on this audit, and how good the best of as many looks by
    chance alone.

    metric, axis: what they are judged by. first, last: the two splits; where: what these are
    called.
    """
    count, error = tried(run), _error(rows_by_hand(run, metric, axis, first))
    if count < 2 or not error > 0:
        return (
            f"{phrasing.count(count, 'set')} tried by hand on this audit so far." if count else ""
        )
    luck = (
        float(stats.norm.ppf((count - 0.375) / (count + 0.25))) * error
    )  # Blom 1958: expected largest of n normals
    again = len(rows_by_hand(run, metric, axis, last))
    also = (
        ""
        if again < 2
        else (
            f" {again} sets were: the best of these looks too good again, and its interval does "
            "not allow for that."
        )
    )
    return (
        f"{count} sets were tried by hand on this audit. Even if none did anything, the best would "
        f"look about {phrasing.number(luck)} better on {where[0]} by chance, or more if chosen by "
        f"the map. So measure the chosen set once more, on {where[1]}.{also}"
    )


def _error(rows: pd.DataFrame) -> float:
    """Standard error of a change: the median of what was measured by hand."""
    return float(
        ((rows["delta_high"] - rows["delta_low"]) / (2 * stats.norm.ppf(TAILS[1]))).median()
    )
