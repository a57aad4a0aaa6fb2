"""A sign of life while a single step takes long: what was said last is said again, with how long
ago that was.

A thread of the job's own says it, so it goes on while the job computes or loads, and ends with the
job.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType

from engine.core.types import Event
from engine.core.words import duration

BEAT = 2.5
"""Seconds of silence after which a job says again where it stands."""


class Pulse:
    """Hands every event on to `tell`, and the last one again after BEAT seconds without another.

    quiet: asked before each repetition; True where nothing more may be said, as after a cancel.
    What `tell` raises in the thread is raised by `check`, which the job calls between two batches.
    """

    def __init__(
        self,
        tell: Callable[[Event], None],
        quiet: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.tell, self.quiet, self.clock = tell, quiet, clock
        self.last, self.since, self.told = Event("start", 0, 0), clock(), clock()
        self.failed: BaseException | None = None
        self._alone, self._over = threading.RLock(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Pulse:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing is repeated from here on."""
        self._over.set()
        self._thread.join()

    def say(self, event: Event) -> None:
        """Something new."""
        with self._alone:
            self.last, self.since = replace(event, note=""), self.clock()
            self.told = self.since
            self.tell(event)

    def beat(self) -> None:
        """Say the last event again where it has been quiet for long enough."""
        with self._alone:
            now = self.clock()
            if now - self.told < BEAT or self.failed:
                return
            try:
                if not self.quiet():
                    self.told = now
                    self.tell(aged(self.last, now - self.since))
            except BaseException as error:
                self.failed = error

    def check(self) -> None:
        """Raise what a repetition raised."""
        if self.failed:
            raise self.failed

    def _run(self) -> None:
        while not self._over.wait(BEAT / 5):
            self.beat()


def aged(event: Event, seconds: float) -> Event:
    """The same event, said `seconds` later; a step that takes longer than all that was left is not
    about to end."""
    so_far = f"{duration(seconds)} so far"
    eta = event.eta if event.eta is None else max(event.eta - seconds, event.eta / 10)
    return replace(event, what=f"{event.what} ({so_far})" if event.what else so_far, eta=eta)
