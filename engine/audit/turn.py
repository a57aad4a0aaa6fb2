"""What an audit does while others wait: whose turn it is on a device, and a sign of life.

While a question is answered on the spot, audits wait between two of their batches. Who answers
holds the lock of a file per device; audits look at it. A killed holder holds nothing. An audit
waits PATIENCE seconds at most for one answer, which may itself wait for a part the audit is at.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path

from engine.core.files import held, locked, make_folder, safe_id
from engine.core.types import Event, Hooks
from engine.core.words import duration
from engine.store.runs import Store

_WORKING: ContextVar[frozenset[Path]] = ContextVar("working", default=frozenset())
"""Locks of devices that this piece of work holds."""
PATIENCE = 60.0
"""Seconds that an audit steps aside for one answer."""
QUIET = 0.1
"""Seconds between two looks of an audit that waits."""


def device_named(name: str) -> str:
    """The device that a request's word means here: "auto" is "cuda:0" or "cpu". RequestError for
    one that is not here.

    Loads torch.
    """
    from engine.models import runtime

    return str(runtime.pick_device(name))


@contextlib.contextmanager
def answering(store: Store, device: str, check: Callable[[], None]) -> Iterator[None]:
    """Within it audits of the store on this device step aside; `check` is called while another
    process answers there.

    In a store that cannot be written no audit runs, and none has to wait.
    """
    path = _path(store, device)
    try:
        path.parent.mkdir(exist_ok=True)
        path.touch()
    except OSError:
        yield
        return
    with locked(path, check) as file:
        file.truncate(0)
        file.write(f"{os.getpid()} {time.time_ns()}")
        file.flush()
        yield


@contextlib.contextmanager
def working(store: Store, device: str, hooks: Hooks) -> Iterator[None]:
    """Within it no other process audits on this device with this store: two never meet in its
    memory. Says that it waits; `hooks.check` may end the waiting. A part of an audit that is an
    audit itself has its turn already.
    """
    path = store.root / "locks" / safe_id(f"work-{device.replace(':', '-')}", "device")
    if path in _WORKING.get():
        yield
        return

    def waiting() -> None:
        hooks.report(Event("waiting", 0, 0, f"another audit works on {device}"))
        hooks.check()

    make_folder(path.parent)
    with locked(path, waiting):
        mark = _WORKING.set(_WORKING.get() | {path})
        try:
            yield
        finally:
            _WORKING.reset(mark)


@dataclass
class Aside:
    """Called by an audit between two batches: returns once nobody answers on its device, or
    patience is at its end.

    `device` is found out at the first call; `check` is called while it waits, and may raise.
    """

    store: Store
    device: Callable[[], str]
    check: Callable[[], None]
    patience: float = PATIENCE
    _file: Path | None = None
    _waited_for: str = ""

    def __call__(self) -> None:
        file = self._file = self._file or _path(self.store, self.device())
        began = time.monotonic()
        while (holder := self._holder(file)) and holder != self._waited_for:
            if time.monotonic() - began >= self.patience:
                self._waited_for = holder
            self.check()
            time.sleep(QUIET)

    def _holder(self, file: Path) -> str:
        """Which answer is under way, "" for none."""
        if not held(file):
            return ""
        with contextlib.suppress(OSError):
            return file.read_text(encoding="utf-8") or "?"
        return ""


def _path(store: Store, device: str) -> Path:
    return store.root / "locks" / safe_id(f"turn-{device.replace(':', '-')}", "device")


# A sign of life while a single step takes long: what was said last is said again. A thread of the
# job's own says it, so it goes on while the job computes or loads, and ends with the job.


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

    def __exit__(self, *_: object) -> None:
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
