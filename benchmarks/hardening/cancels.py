"""Jobs of every kind cancelled at random moments, from the start of their process on: seconds until
it is gone."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.hardening._audits import LONGEST, Audited, audits, side_by_side, tell
from benchmarks.report import Measure
from engine.audit import jobs
from engine.audit.request import Request
from engine.core.types import rng
from engine.store.runs import Store

CANCELS = 4
"""Of every kind of audit."""
IMPORTS = 6.0
"""About the seconds that a process takes until its audit begins: moments are drawn from them too.
"""
TRIES = 4
BAR = 2.0


def measures(times: int) -> list[Measure]:
    """The slowest and the usual cancel of all kinds."""
    found = audits()
    tried = side_by_side(_one, [(audit, at) for audit in found for at in range(times * CANCELS)])
    seconds, told = zip(*tried, strict=True)
    tell("cancels", told)
    name = (
        f"{len(tried)} jobs of {len(found)} kinds cancelled at random moments: until the process is"
        " gone"
    )
    return [
        Measure(f"{name}, median", statistics.median(seconds), "s"),
        Measure(f"{name}, slowest", max(seconds), "s", BAR),
    ]


def _one(given: tuple[Audited, int]) -> tuple[float, str]:
    """Seconds of one cancel, and what to say of it where it was slow."""
    audit, number = given
    draw = rng("hardening cancels", audit.track, number)
    for attempt in range(TRIES):
        moment = draw.random() * (audit.seconds + IMPORTS) * 0.7**attempt
        with TemporaryDirectory(prefix="hardening-cancel-", ignore_cleanup_errors=True) as folder:
            seconds, phase = _cancelled(audit, Store(Path(folder)), moment)
        if seconds is not None:
            told = f"{audit.track}, cancelled after {moment:.1f} s ({phase}): {seconds:.2f} s"
            return seconds, told if seconds > BAR else ""
    return LONGEST, f"{audit.track}: never cancelled in {TRIES} tries"


def _cancelled(audit: Audited, store: Store, moment: float) -> tuple[float | None, str]:
    """Seconds from the wish to the end of the process, and what the job was at; None where it had
    ended before."""
    job = jobs.submit(_request(audit), store)
    time.sleep(moment)
    before = jobs.job_state(store, job)
    jobs.cancel(store, job)
    start = time.monotonic()
    while jobs.is_up(store.jobs_folder / job) and time.monotonic() - start < LONGEST:
        time.sleep(0.01)
    seconds, after = time.monotonic() - start, jobs.job_state(store, job)
    return seconds if after.status == "cancelled" else None, before.phase or before.status


def _request(audit: Audited) -> Request:
    """What the words of its command ask for."""
    from engine.cli import parser
    from engine.cli.audit import request_of_words

    return request_of_words(parser().parse_args(list(audit.words)))
