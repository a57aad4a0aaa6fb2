"""What the engine keeps loaded: models, judges and prompts by key, the least recently used dropped
first."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from engine.core import memory
from engine.core.types import Values

T = TypeVar("T")


def allowed() -> int:
    """Bytes that may stay loaded: $PRUNEAUDIT_MEMORY ("2G", "500M", bytes), else a quarter of what
    is free now."""
    return memory.stated() or max(memory.LEAST, memory.free() // 4)


def memory_ran_out(error: BaseException) -> bool:
    """Whether an error means that memory ran out, on any device."""
    if "torch" not in sys.modules:
        return isinstance(error, MemoryError)
    from engine.models.runtime import is_out_of_memory

    return is_out_of_memory(error)


def _give_back() -> None:
    """Free what nothing refers to any more, down to the system: the C library and torch keep what
    they were given."""
    gc.collect()  # models are circles of modules
    torch = sys.modules.get("torch")
    if torch and torch.cuda.is_initialized():
        torch.cuda.empty_cache()
    with contextlib.suppress(OSError, AttributeError):  # only the GNU C library has it
        ctypes.CDLL(None).malloc_trim(0)


@dataclass
class Kept:
    """A loaded thing, its bytes, how many running answers use it, since when it is here, and how
    often it was found loaded."""

    value: Any
    size: int
    users: int = 0
    since: float = field(default_factory=time.time)
    hits: int = 0


class Warm:
    """Loaded things within a budget of bytes. One larger than the budget is handed out and not
    kept.

    What a running answer uses stays until its end and counts once; then the budget holds again.
    """

    def __init__(self, budget: int | None = None) -> None:
        self.budget = allowed() if budget is None else budget
        self._kept: OrderedDict[str, Kept] = OrderedDict()
        self._lock = threading.RLock()
        self._loading = (
            threading.RLock()
        )  # one load at a time; what is loaded is handed out meanwhile
        self._mine = threading.local()

    def get(self, key: str, make: Callable[[], T], size: Callable[[T], int]) -> T:
        """What is kept under `key`, made now if it is not there; size: its bytes."""
        with contextlib.suppress(KeyError):
            return self._found(key, 1)
        with self._loading:
            with contextlib.suppress(KeyError):  # loaded by another thread meanwhile
                return self._found(key, 1)
            made = self._made(make)
            with self._lock:
                self._kept[key] = Kept(made, int(size(made)))
                self._found(key)
            self._fit()
            return made

    @contextlib.contextmanager
    def answering(self) -> Iterator[None]:
        """Around one answer, in its thread: what is got within stays loaded until the end."""
        self._mine.keys = set()
        try:
            yield
        finally:
            with self._lock:
                for key in self._mine.keys:
                    self._kept[key].users -= 1
            self._mine.keys = None
            self._fit()

    @property
    def used(self) -> int:
        """Bytes kept."""
        with self._lock:
            return sum(one.size for one in self._kept.values())

    def names(self) -> list[str]:
        """Keys of what is kept, the least recently used first."""
        with self._lock:
            return list(self._kept)

    def listed(self) -> list[Values]:
        """What is kept, the most recently used first: name, device ("" where it has none), bytes,
        since when (seconds of the epoch), and how often a question found it loaded."""
        with self._lock:
            return [
                {
                    "name": name,
                    "device": str(getattr(one.value, "device", "")),
                    "bytes": one.size,
                    "since": one.since,
                    "hits": one.hits,
                }
                for name, one in reversed(self._kept.items())
            ]

    def clear(self) -> None:
        """Drop everything that no running answer uses."""
        self._drop_to(0)

    def _found(self, key: str, hits: int = 0) -> Any:
        """KeyError for what is not kept."""
        with self._lock:
            one = self._kept[key]
            one.hits += hits
            self._kept.move_to_end(key)
            mine = getattr(self._mine, "keys", None)
            if mine is not None and key not in mine:
                mine.add(key)
                one.users += 1
            return one.value

    def _made(self, make: Callable[[], T]) -> T:
        """Made; once again with everything else dropped, where memory ran out."""
        try:
            return make()
        except (MemoryError, RuntimeError) as error:
            if not memory_ran_out(error):
                raise
        self.clear()
        return make()

    def _fit(self) -> None:
        self._drop_to(self.budget)

    def _drop_to(self, most: int) -> None:
        """Drop the least recently used until `most` bytes are kept, and give their memory back."""
        dropped = False
        with self._lock:
            for key in list(self._kept):
                if self.used <= most:
                    break
                if not self._kept[key].users:
                    del self._kept[key]
                    dropped = True
        if dropped:
            _give_back()
