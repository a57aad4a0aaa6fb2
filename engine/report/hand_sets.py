"""Sets of units that a person chose, as variants of a run: what they are called, which were kept,
how many were tried.

Each set is a method of its own with one variant; `chosen` once it was measured on test, and so
counts as reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd
from scipy import stats

from engine.audit.request import Growth
from engine.core.errors import Fault, RequestError
from engine.core.files import json_able
from engine.core.words import PREFIX, is_by_hand
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.contract import Ahead
from engine.stats.clustered import TAILS
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


# What was predicted beside what was measured, for whoever asked for more of an audit. No torch.


def told_of(
    before: Run,
    after: Run,
    split: str,
    variants: Mapping[str, Any],
    rows: Iterable[Mapping[str, Any]],
    notes: list[str],
) -> dict[str, Any]:
    """JSON-able: added (its id, None where nothing was missing); variants with their units; rows;
    tried, sets by hand; notes. A row is a number about a variant: predicted with ends, before it
    was measured, and measured with ends.
    """
    new = [one for one in after.added if one.id not in {old.id for old in before.added}]
    said = [*(note for one in new for note in one.meta["notes"]), *notes]
    return json_able(
        {
            "run": after.id,
            "split": split,
            "added": new[-1].id if new else None,
            "variants": dict(variants),
            "rows": list(rows),
            "tried": tried(after),
            "notes": list(dict.fromkeys(said)),
        }
    )


def classifier_rows(
    run: Run, growth: Growth, name: str, split: str, ahead: Ahead | None
) -> Iterator[dict[str, Any]]:
    """A set of a classifier's units on the axes that were asked for: all items, the gaps, accuracy
    of every group."""
    for axis in growth.axes:
        yield from _rows(run, name, axis, split, ahead)


def _rows(
    run: Run, name: str, axis: str, split: str, ahead: Ahead | None
) -> Iterator[dict[str, Any]]:
    table = lookup.frame(run, "variants").set_index("variant")
    same = {"variant": name, "n_cut": int(table.loc[name, "n_cut"]), "axis": axis}
    for metric, of in (("accuracy", ""), ("accuracy_gap", axis), ("auc", ""), ("auc_gap", axis)):
        if row := lookup.result(run, name, metric, of, split):
            yield {
                **same,
                "number": metric.replace("_", " "),
                **_ahead(ahead, metric, of),
                **_came(row),
            }
    for row in lookup.groups_of(run, name, "accuracy", axis, split).to_dict("records"):
        guess = _ahead(ahead, "accuracy", axis, row["group"])
        yield {**same, "number": f"accuracy, {row['group']}", **guess, **_came(row)}


def _ahead(ahead: Ahead | None, metric: str, axis: str, group: str = "") -> dict[str, float | None]:
    """What was predicted of a number, None where nothing was."""
    nothing = dict.fromkeys(("predicted", "predicted_low", "predicted_high"))
    table = pd.DataFrame() if ahead is None else ahead.tables["groups" if group else "results"]
    if table.empty:
        return nothing
    rows = where(table, metric=metric, axis=axis, group=group)
    return (
        nothing
        if rows.empty
        else dict(zip(nothing, rows.iloc[0][["value", "low", "high"]], strict=True))
    )


def _came(row: dict[str, Any]) -> dict[str, float]:
    return {"measured": row["value"], "low": row["low"], "high": row["high"]}
