"""Audits of every kind killed (-9) at random moments and asked for again: equal to uninterrupted
ones but for times."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.hardening._audits import Audited, again, audits, forked, right, side_by_side
from benchmarks.report import Measure
from engine.core.types import rng

KILLS = 40
TRIES = 6
"""How often a moment is drawn again where the audit was through before it."""


def measures(times: int) -> list[Measure]:
    """So many of `times` × 40 kills whose audit, asked for again, ended with the same tables."""
    found = audits()
    failed = side_by_side(_one, [(found[at % len(found)], at) for at in range(times * KILLS)])
    name = f"random kills over {len(found)} tracks, equal to the uninterrupted run but for times"
    return [right("kills", name, failed)]


def _one(given: tuple[Audited, int]) -> str:
    """What differs after one kill; "" where nothing does."""
    audit, number = given
    draw = rng("hardening kills", number)
    with TemporaryDirectory(prefix="hardening-kill-") as folder:
        for attempt in range(TRIES):
            store, log = Path(folder) / f"store{attempt}", Path(folder) / f"log{attempt}"
            words = [*audit.words, "--json", "--store", str(store)]
            moment = draw.random() * audit.seconds * 0.8**attempt
            if forked(words, log, after=moment).code < 0:
                wrong = again(audit, store, forked(words, log))
                return f"{audit.track}, killed after {moment:.2f} s: {wrong}" if wrong else ""
    return f"{audit.track}: never killed in {TRIES} tries"
