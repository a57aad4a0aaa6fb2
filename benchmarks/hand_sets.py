"""Predicted sets of heads or filters of the embedded classifiers: how often a 95 % interval holds
what is measured then.

Sets that the audits did not measure, drawn with a stated seed. Every number that was predicted
counts: accuracy or AUC of all items and of each group, gaps between groups.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.report import Measure, parser, show
from engine.audit.request import Growth
from engine.audit.session import absent
from engine.audit.tracks import track_of_run
from engine.core.types import Hooks, rng
from engine.report.charts.panel import Choice
from engine.report.hand_sets import CELL, TEST, tried_variant
from engine.report.tracks import Bench, track_of
from engine.resident.warm import Warm
from engine.store.runs import EMBEDDED, Run, Store, find_run

TRIED = {"text_classifiers": ("accuracy", 8), "image_classifiers": ("auc", 40)}
"""What is read, and the heads or filters of the largest set."""
BAR = 0.9
"""Share of 95 % intervals that hold."""


def main() -> int:
    """Measure and print; exit code 1 when a bar is missed."""
    options = parser(__doc__)
    options.add_argument(
        "--sets", type=int, default=20, help="how many sets of each audit are measured"
    )
    asked = options.parse_args()
    measures = []
    for run in audits():
        with tempfile.TemporaryDirectory() as folder:
            measures += _shares(run, held(run, Store(Path(folder)), asked.sets))
    return show(measures, asked.json)


def audits() -> Iterator[Run]:
    """The embedded audits of classifiers in which sets are predicted."""
    store = Store(EMBEDDED, read_only=True)
    for run in (find_run(one, [store]) for one in store.ids()):
        if run.meta["track"] in TRIED and not absent(run) and _ahead(run, (0,)) is not None:
            yield run


def _bench(run: Run) -> Bench:
    bench = track_of(run).bench
    assert bench is not None
    return bench


def _numbers(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """A row per number of all items, of a group, or between groups."""
    rows = pd.concat([tables["results"].assign(group=""), tables["groups"]])
    return rows[(rows["split"] == TEST) & ~rows["metric"].str.match("worst_|best_")]


def _ahead(run: Run, units: tuple[int, ...]) -> pd.DataFrame | None:
    """What is predicted of a set."""
    reading = TRIED[run.meta["track"]][0]
    choice = Choice("dense", run.request["axes"][0], 0.0, reading=reading)
    ahead = _bench(run).ahead(run, choice, units)
    return None if ahead is None else _numbers(ahead.tables)


def held(run: Run, store: Store, number: int) -> pd.DataFrame:
    """A row per predicted number: holds, miss (distance of what was predicted), change (of what was
    measured). Sizes in turn; what is not predicted is left out."""
    found, warm, draw = [], Warm(), rng("hand sets benchmark", 0)
    track, axis = run.meta["track"], run.request["axes"][0]
    for size in np.linspace(1, TRIED[track][1], number).astype(int):
        units = tuple(sorted(draw.permutation(run.n_units)[:size].tolist()))
        guesses = _ahead(run, units)
        if guesses is None:
            continue
        growth = Growth(track=track, run=run.id, axis=axis, units=units, split=TEST)
        grown = track_of_run(run).part("grow")(growth, store, Hooks(), warm=warm)
        variant = tried_variant(grown, units, partial(_bench(run).cut_of, run))
        measured = _numbers({name: grown.table(name) for name in ("results", "groups")})
        measured = measured[measured["variant"] == variant][[*CELL, "value"]]
        both = guesses.merge(measured, on=list(CELL), suffixes=("", "_then"))
        miss = both["value_then"] - both["value"]
        holds = miss.between(
            both["low"] - both["value"] - 1e-9, both["high"] - both["value"] + 1e-9
        )
        change = (miss + both["delta"]).abs()
        found.append(pd.DataFrame({"holds": holds, "miss": miss.abs(), "change": change}))
    return pd.concat(found)


def _shares(run: Run, rows: pd.DataFrame) -> list[Measure]:
    name = run.data["name"]
    return [
        Measure(
            f"{name}: intervals that hold, of {len(rows)}",
            round(rows["holds"].mean(), 3),
            "",
            BAR,
            True,
        ),
        Measure(f"{name}: missed by, median", round(rows["miss"].median(), 4), ""),
        Measure(f"{name}: measured change, median", round(rows["change"].median(), 4), ""),
    ]


if __name__ == "__main__":
    raise SystemExit(main())
