"""Predicted sets of heads of the embedded text classifiers: how often a 95 % interval holds what is
measured then.

Sets that the audits did not measure, of 1 to MOST heads, drawn with a stated seed. Every number
that was predicted
counts: accuracy of all texts and of each group, gaps between groups.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.report import Measure, parser, show
from engine.audit.request import Growth
from engine.core.types import Hooks, rng
from engine.report.charts import lookup
from engine.resident.warm import Warm
from engine.store.runs import EMBEDDED, Run, Store
from engine.tracks.text_classifiers.growing import TEST, Known, grow, known

MOST = 8
"""Heads of the largest set."""
BAR = 0.9
"""Share of 95 % intervals that hold."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; exit code 1 when a bar is missed."""
    options = parser(__doc__)
    options.add_argument(
        "--sets", type=int, default=20, help="how many sets of each audit are measured"
    )
    asked = options.parse_args(arguments)
    measures = []
    for run, learnt in audits():
        with tempfile.TemporaryDirectory() as folder:
            measures += _shares(run, held(run, learnt, Store(Path(folder)), asked.sets))
    return show(measures, asked.json)


def audits() -> Iterator[tuple[Run, Known]]:
    """The embedded audits of text classifiers that learn from measured sets."""
    store = Store(EMBEDDED, read_only=True)
    for run in map(store.open, store.ids()):
        if run.request.get("track") != "text_classifiers" or not run.table("texts")["text"].any():
            continue  # of another kind, or handed on without its texts
        if learnt := known(run):
            yield run, learnt


def new_sets(learnt: Known, number: int) -> list[tuple[int, ...]]:
    """Sets that nothing was learnt from, sizes in turn."""
    draw, total = rng("hand sets benchmark", 0), learnt.model.member.shape[1]
    before = {tuple(np.flatnonzero(row).tolist()) for row in learnt.model.member}
    found: list[tuple[int, ...]] = []
    while len(found) < number:
        units = tuple(sorted(draw.permutation(total)[: 1 + len(found) % MOST].tolist()))
        if units not in before and units not in found:
            found.append(units)
    return found


def held(run: Run, learnt: Known, store: Store, number: int) -> pd.DataFrame:
    """A row per predicted number: holds, miss (distance of what was predicted), change (of what was
    measured)."""
    rows, warm, axis = [], Warm(), run.request["axes"][0]
    for units in new_sets(learnt, number):
        grown = grow(
            Growth(track="text_classifiers", run=run.id, axis=axis, units=units, split=TEST),
            store,
            Hooks(),
            warm=warm,
        )
        variant = next(
            one.table("variants")["variant"].iloc[0]
            for one in grown.added
            if tuple(one.meta["asked"]["units"]) == units
        )
        for row in learnt.guess(units).to_dict("records"):
            value = _measured(grown, variant, row)
            holds = row["low"] - 1e-9 <= value <= row["high"] + 1e-9
            rows.append(
                {
                    "holds": holds,
                    "miss": abs(value - row["value"]),
                    "change": abs(value - row["value"] + row["delta"]),
                }
            )
    return pd.DataFrame(rows)


def _measured(run: Run, variant: str, row: dict) -> float:
    if not row["group"]:
        found = lookup.result(run, variant, row["metric"], row["axis"], TEST)
        assert found is not None
        return float(found["value"])
    groups = lookup.groups_of(run, variant, row["metric"], row["axis"], TEST)
    return float(groups.loc[groups["group"] == row["group"], "value"].iloc[0])


def _shares(run: Run, rows: pd.DataFrame) -> list[Measure]:
    name = run.data["name"]
    return [
        Measure(
            f"{name}: intervals that hold, of {len(rows)}",
            round(float(rows["holds"].mean()), 3),
            "",
            BAR,
            True,
        ),
        Measure(f"{name}: missed by, median", round(float(rows["miss"].median()), 4), ""),
        Measure(f"{name}: measured change, median", round(float(rows["change"].median()), 4), ""),
    ]


if __name__ == "__main__":
    raise SystemExit(main())
