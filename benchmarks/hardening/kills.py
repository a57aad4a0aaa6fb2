"""Audits of every kind killed (-9) at random moments and asked for again: equal to uninterrupted
ones but for times."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.hardening._audits import (
    Audited,
    audits,
    differences,
    forked,
    run_of,
    side_by_side,
    tell,
)
from benchmarks.report import Measure
from engine.core.types import rng

KILLS = 40
TRIES = 6
"""How often a moment is drawn again where the audit was through before it."""


def measures(times: int) -> list[Measure]:
    """So many of `times` × 40 kills whose audit, asked for again, ended with the same tables."""
    found = audits()
    failed = side_by_side(_one, [(found[at % len(found)], at) for at in range(times * KILLS)])
    tell("kills", [one for one in failed if one])
    right = sum(not one for one in failed)
    name = f"random kills over {len(found)} tracks, equal to the uninterrupted run but for times"
    return [Measure(name, right, f"of {times * KILLS}", times * KILLS, at_least=True)]


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
                again = forked(words, log)
                return _differing(
                    audit,
                    store,
                    f"{audit.track}, killed after {moment:.2f} s",
                    again.code,
                    again.said,
                )
    return f"{audit.track}: never killed in {TRIES} tries"


def _differing(audit: Audited, store: Path, what: str, code: int, said: str) -> str:
    if code:
        return f"{what}: ended with {code}: {said[-500:]}"
    wrong = differences(run_of(audit.store, audit.run), run_of(store, audit.run))
    return f"{what}: {', '.join(wrong)} differ" if wrong else ""
