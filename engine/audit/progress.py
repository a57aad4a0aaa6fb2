"""How far long work is, and how long it will take."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from engine.core.types import Event

SETTLED = 2.0
"""Seconds of computing before a forecast is said: first batches warm up, at half the speed of what
follows."""


@dataclass
class Progress:
    """Counts work over all phases of one audit. Work found finished on disk counts as done but not
    for the speed.

    Where all work is known before it begins, the share that is said to be done never falls: what
    turns up beyond it lets the share stand still for a while.
    """

    report: Callable[[Event], None]
    clock: Callable[[], float] = time.monotonic
    total: float = 0.0
    done: float = 0.0
    _fresh: float = 0.0
    _spent: float = 0.0
    _phase: str = ""
    _share: float = 0.0
    _in_all: bool = False
    spent: dict[str, float] = field(default_factory=dict)
    afterwards: float = 0.0
    """Seconds of what comes after all that is counted, such as statistics, as far as that is known.
    """
    settled: float = SETTLED
    """Seconds of computing before a forecast is said: more while the next results decide how much
    there is to do."""

    _counted: set[Hashable] = field(default_factory=set)

    def uncounted(self, shards: Sequence[Any]) -> list[Any]:
        """Those that were not counted as work yet: what several phases ask for is done once."""
        return [shard for shard in dict.fromkeys(shards) if shard not in self._counted]

    def count(self, shards: Sequence[Any]) -> list[Any]:
        """As `uncounted`; from here on they are."""
        found = self.uncounted(shards)
        self._counted.update(found)
        return found

    def expect_in_all(self, size: float) -> None:
        """Set the amount of all work, in the unit of the measurements' size, where it is known
        before it begins."""
        self.total, self._in_all = size, True

    def expect(self, size: float) -> None:
        """Work that begins now: counted already where all of it was known, more only where that was
        too little."""
        self.total = max(self.total, self.done + size)

    def advance(
        self, phase: str, size: float, seconds: float, what: str = "", fresh: bool = True
    ) -> None:
        """A part of `size` was finished in `seconds`."""
        self.done += size
        self.spent[phase] = self.spent.get(phase, 0.0) + seconds
        if fresh:
            self._fresh += size
            self._spent += seconds
        self.say(phase, what)

    def partly(self, phase: str, size: float, seconds: float, what: str = "") -> None:
        """Report from the inside of a part: `size` of it is done after `seconds`."""
        self.report(self._event(phase, self.done + size, what, self._left(size, seconds)))

    def say(self, phase: str, what: str = "") -> None:
        """Report where things stand."""
        self._phase = phase
        self.report(self._event(phase, self.done, what, self.eta))

    def over(self, phase: str) -> None:
        """Say that nothing is left: work that was counted and turned out not to be needed is
        forgotten."""
        self.total = self.done
        self.say(phase)

    def tell(self, note: str) -> None:
        """A sentence to keep on screen, where things stand."""
        self.report(replace(self._event(self._phase, self.done, "", self.eta), note=note))

    def _event(self, phase: str, done: float, what: str, eta: float | None) -> Event:
        total = round(self.total)
        if total and self._in_all:
            done = min(math.ceil(max(self._share, done / self.total) * total - 1e-9), total)
            self._share = done / total
        return Event(phase, round(done), total, what, eta)

    @property
    def computed(self) -> float:
        """Share of the work that was computed, the rest was found finished; 1 where there was
        none."""
        return self._fresh / self.done if self.done > 0 else 1.0

    @property
    def eta(self) -> float | None:
        """Seconds left at the speed so far; None before enough was computed to tell."""
        return self._left(0.0, 0.0)

    def _left(self, size: float, seconds: float) -> float | None:
        """As `eta`, where `size` of the part under way is done after `seconds`."""
        fresh, spent = self._fresh + size, self._spent + seconds
        if fresh <= 0 or spent < self.settled:
            return None
        return max(self.total - self.done - size, 0.0) * spent / fresh + self.afterwards
