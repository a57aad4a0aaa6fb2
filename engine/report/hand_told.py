"""What was predicted beside what was measured, for whoever asked for more of an audit. No torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pandas as pd

from engine.audit.request import Growth
from engine.core.files import json_able
from engine.report.charts import lookup
from engine.report.contract import Ahead
from engine.report.hand_sets import tried
from engine.store.runs import Run
from engine.store.tables import where


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
