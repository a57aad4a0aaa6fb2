"""Twenty sessions of one server, each moving the slider or changing the page: reruns as the socket
sees them.

The server is the one users start. The sessions are no browsers: what is measured is the server, not
twenty Chromiums.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from statistics import median, quantiles

from benchmarks import app_server
from benchmarks.hardening._visitors import Visitor
from benchmarks.report import Measure, timed
from engine.core.types import rng
from engine.store.runs import EMBEDDED, Store

SESSIONS, PAUSE = 20, 4.0
ACTIONS = 8
"""Of every session, after a first page that is not counted."""
PAGES = ("summary", "trade_off", "heads")


def measures() -> list[Measure]:
    """Median and 95th percentile of many sessions over those of one, with pauses and without; of
    those without pauses also what decides them, redraws per second: in a closed loop the mean is
    the number of sessions over these.
    """
    with app_server.fresh() as (address, _):
        _one_session(address, 0, 0.0, ACTIONS)  # not counted: caches fill
        alone = _one_session(address, 1, 0.5, 3 * ACTIONS)
        paced = _together(address, PAUSE)
        at_once, seconds = timed(lambda: _together(address, 0.0))
    rate = (len(at_once) + SESSIONS) / seconds  # the first page of each is drawn too
    say = f"{SESSIONS} sessions, one action each {PAUSE:g} s"
    return [
        Measure("one session: slider or page, median", median(alone), "s"),
        Measure("one session: slider or page, 95th percentile", _late(alone), "s"),
        Measure(f"{say}: median", median(paced), "s"),
        Measure(f"{say}: median over one session's", median(paced) / median(alone), "×", 2),
        Measure(f"{say}: 95th percentile over one session's", _late(paced) / _late(alone), "×", 4),
        Measure(
            f"{SESSIONS} sessions without pauses: median over one session's",
            median(at_once) / median(alone),
            "×",
            8,
        ),
        Measure("… in seconds", median(at_once), "s"),
        Measure("… redraws per second of the server", rate, "1/s"),
    ]


def _together(address: str, pause: float) -> list[float]:
    """Seconds of all actions of all sessions."""
    with ThreadPoolExecutor(SESSIONS) as pool:
        found = pool.map(
            lambda number: _one_session(address, 10 + number, pause, ACTIONS), range(SESSIONS)
        )
        return [second for seconds in found for second in seconds]


def _one_session(address: str, number: int, pause: float, actions: int) -> list[float]:
    """Seconds of its actions: the slider twice as often as another page. One action begins every
    `pause` seconds, or when the one before is done."""
    draw, seconds = rng("hardening sessions", number), []
    run = min(Store(EMBEDDED).list(), key=lambda summary: summary.created).id
    visitor = Visitor(address, run)
    try:
        time.sleep(draw.random() * pause)
        visitor.go(PAGES[0])
        due = time.monotonic()
        for _ in range(actions):
            due = max(due + pause, time.monotonic())
            time.sleep(max(0.0, due - time.monotonic()))
            slides = visitor.slider is not None and draw.random() < 2 / 3
            seconds.append(visitor.slide() if slides else visitor.go(str(draw.choice(PAGES))))
    finally:
        visitor.close()
    return seconds


def _late(seconds: list[float]) -> float:
    """The 95th percentile."""
    return quantiles(seconds, n=20)[-1]
