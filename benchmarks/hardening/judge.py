"""Verdicts of the judge in an audit that was killed at each of several shards and resumed: equal to
the bit."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.hardening._audits import Audited, audits, forked, run_of, side_by_side, tell
from benchmarks.report import Measure
from engine.core.seeds import rng

JUDGED = "toxicity"
"""Audits whose tables have this column were judged."""
KILLS = 8


def measures(times: int) -> list[Measure]:
    """The largest difference of any verdict between audits that were killed and resumed, and one
    that was not."""
    judged = [audit for audit in audits() if _verdicts(audit.store, audit.run)]
    found = side_by_side(_apart, [(audit, at) for audit in judged for at in range(times * KILLS)])
    tell("judge", [f"kill {at}: {apart:.1e}" for at, apart in enumerate(found) if apart])
    name = f"judge's scores after a kill and a resume, {len(found)} kills: largest difference"
    return [Measure(name, max(found), "", 0)]


def _apart(given: tuple[Audited, int]) -> float:
    audit, number = given
    draw = rng("hardening judge", number)
    with TemporaryDirectory(prefix="hardening-judge-") as folder:
        store = Path(folder) / "store"
        words = [*audit.words, "--json", "--store", str(store)]
        forked(words, Path(folder) / "log", after=float(draw.uniform(0.2, 0.9)) * audit.seconds)
        if (done := forked(words, Path(folder) / "log")).code:
            raise RuntimeError(done.said[-500:])
        whole, again = (
            _verdicts(*place) for place in ((audit.store, audit.run), (store, audit.run))
        )
    return max(
        abs(one - other)
        for name in whole
        for one, other in zip(whole[name], again[name], strict=True)
    )


def _verdicts(store: Path, run: str) -> dict[str, list[float]]:
    """Verdicts by table."""
    found = run_of(store, run)
    tables = {name: found.table(name) for name in found.meta["tables"]}
    return {name: table[JUDGED].tolist() for name, table in tables.items() if JUDGED in table}
