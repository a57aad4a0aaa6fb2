"""The server's memory over 300 changes of the page by one session, after every page was shown
once."""

from __future__ import annotations

import itertools

from benchmarks import app_server
from benchmarks.hardening._visitors import Visitor
from benchmarks.report import Measure, memory
from engine.store.runs import EMBEDDED, Store

CHANGES, WARM = 300, 3
"""Changes that are counted, and rounds over all pages and runs before them."""
PAGES = ("summary", "trade_off", "reliability", "measured", "audits", "compare", "export", "jobs")


def measures(times: int) -> list[Measure]:
    """Growth of the resident memory of the server's process, in per cent of what it was before."""
    runs = [summary.id for summary in Store(EMBEDDED).list()]
    places = [(run, page) for page in PAGES for run in runs]
    with app_server.fresh() as (address, process):
        visitor = Visitor(address, runs[0])
        _show(visitor, places * WARM)
        before = memory("VmRSS", process)
        _show(visitor, list(itertools.islice(itertools.cycle(places), times * CHANGES)))
        after = memory("VmRSS", process)
        visitor.close()
    name = f"{times * CHANGES} page changes: growth of the server's memory"
    return [
        Measure("the server's memory before", before / 2**20, "MiB"),
        Measure(name, 100 * (after - before) / before, "%", 5),
    ]


def _show(visitor: Visitor, places: list[tuple[str, str]]) -> None:
    for visitor.run, page in places:
        visitor.go(page)
