"""What the engine keeps loaded: models, judges and prompts by key, the least recently used dropped first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
BUDGET = 2 << 30
"""Bytes that may stay loaded, unless told otherwise."""


class Warm:
    """Loaded things within a budget of bytes. One larger than the budget is handed out and not kept."""

    def __init__(self, budget: int = BUDGET) -> None:
        self.budget = budget
        self._kept: OrderedDict[str, tuple[Any, int]] = OrderedDict()
        self._lock = threading.RLock()

    def get(self, key: str, make: Callable[[], T], size: Callable[[T], int]) -> T:
        """What is kept under `key`, made now if it is not there; size: its bytes."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key][0]
            made = make()
            self._kept[key] = made, int(size(made))
            while self._kept and self.used > self.budget:
                self._kept.popitem(last=False)
            return made

    @property
    def used(self) -> int:
        """Bytes kept."""
        return sum(size for _, size in self._kept.values())

    def names(self) -> list[str]:
        """Keys of what is kept, the least recently used first."""
        with self._lock:
            return list(self._kept)

    def clear(self) -> None:
        """Drop everything."""
        with self._lock:
            self._kept.clear()
