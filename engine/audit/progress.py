"""How far long work is, and how long it will take."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from engine.core.types import Event


@dataclass
class Progress:
    """Counts work over all phases of one audit. Work found finished on disk counts as done but not for the speed."""

    report: Callable[[Event], None]
    clock: Callable[[], float] = time.monotonic
    total: float = 0.0
    done: float = 0.0
    _fresh: float = 0.0
    _spent: float = 0.0
    _phase: str = ""
    spent: dict[str, float] = field(default_factory=dict)

    def expect(self, size: float) -> None:
        """Add work that became known."""
        self.total += size

    def advance(self, phase: str, size: float, seconds: float, what: str = "", fresh: bool = True) -> None:
        """A part of `size` was finished in `seconds`."""
        self.done += size
        self.spent[phase] = self.spent.get(phase, 0.0) + seconds
        if fresh:
            self._fresh += size
            self._spent += seconds
        self.say(phase, what)

    def partly(self, phase: str, size: float, seconds: float, what: str = "") -> None:
        """Report from the inside of a part: `size` of it is done after `seconds`."""
        fresh = self._fresh + size
        left = max(self.total - self.done - size, 0.0)
        eta = left * (self._spent + seconds) / fresh if fresh > 0 else None
        self.report(Event(phase, round(self.done + size), round(self.total), what, eta))

    def say(self, phase: str, what: str = "") -> None:
        """Report where things stand."""
        self._phase = phase
        self.report(Event(phase, round(self.done), round(self.total), what, self.eta))

    def tell(self, note: str) -> None:
        """A sentence to keep on screen, where things stand."""
        self.report(Event(self._phase, round(self.done), round(self.total), eta=self.eta, note=note))

    @property
    def eta(self) -> float | None:
        """Seconds left at the speed so far; None before anything was computed."""
        if self._fresh <= 0:
            return None
        return max(self.total - self.done, 0.0) * self._spent / self._fresh


@dataclass
class Forecast(Progress):
    """Progress where the amount of all work is known before it begins, though not which parts are finished already."""

    def expect_in_all(self, size: float) -> None:
        """Set the amount of all work, in the unit of the measurements' size."""
        self.total = size

    def expect(self, size: float) -> None:
        """Work of one phase, already counted; more only where the forecast was too small."""
        self.total = max(self.total, self.done + size)
