"""Questions and jobs wait in line, one line per device, the oldest first; one question at a time is
answered."""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TextIO

from engine.audit import jobs
from engine.core.errors import Cancelled, PruneAuditError
from engine.core.files import make_folder, taken
from engine.core.types import Values
from engine.resident.wire import Closed
from engine.store.runs import Store

PATIENCE = 2.0
"""Seconds that an answer has to stop once nobody waits for it."""


@dataclass(eq=False)
class Question:
    """What was asked by one asker, who hears by `send`."""

    name: str
    given: Values
    send: Callable[[Values], None]
    gone: threading.Event = field(default_factory=threading.Event)
    """Set once nobody waits for the answer, or the engine ends."""
    again: bool = False
    """Whether the asker is to ask the next engine."""
    place: int = 0
    """Questions before it, as the asker was last told."""

    def tell(self, message: Values) -> None:
        """Tell the asker; where that is impossible, nobody waits any more."""
        try:
            self.send(message)
        except Closed:
            self.gone.set()

    def check(self) -> None:
        """Cancelled once nobody waits for the answer."""
        if self.gone.is_set():
            raise Cancelled("Cancelled. What was finished is kept.")


class Lines:
    """Every device's line, each with a thread of its own that answers with `answered` and tells
    what it returns."""

    def __init__(self, answered: Callable[[Question, str], Values]) -> None:
        self._answered = answered
        self._waiting: dict[str, list[Question]] = {}
        self._running: dict[str, Question] = {}
        self._moved = threading.Condition()
        self._closed = False
        self.last_moved = time.monotonic()

    def join(self, question: Question, device: str) -> None:
        """Take a place on the device's line."""
        with self._moved:
            if self._closed:
                question.tell({"kind": "again"})
                return
            if device not in self._waiting:
                self._waiting[device] = []
                threading.Thread(target=self._work, args=(device,), daemon=True).start()
            self._waiting[device].append(question)
            self._changed()

    def leave(self, question: Question) -> None:
        """Nobody waits for this one any more: it loses its place, or its answer stops at the next
        check."""
        question.gone.set()
        with self._moved:
            for line in self._waiting.values():
                if question in line:
                    line.remove(question)
                    question.tell({"kind": "cancelled"})
            self._changed()

    def busy(self) -> bool:
        """Whether a question waits or is answered."""
        with self._moved:
            return bool(self._running or any(self._waiting.values()))

    def listed(self) -> dict[str, list[dict[str, str]]]:
        """What is answered and what waits, JSON-able."""
        with self._moved:
            running = [
                {"question": one.name, "device": device} for device, one in self._running.items()
            ]
            waiting = [
                {"question": one.name, "device": name}
                for name, line in self._waiting.items()
                for one in line
            ]
            return {"answering": running, "waiting": waiting}

    def close(self, again: bool, grace: float) -> None:
        """End: who waits is sent away, to the next engine where `again`; what is answered has
        `grace` seconds to end and is then stopped."""
        with self._moved:
            self._closed = True
            for line in self._waiting.values():
                for question in line:
                    question.tell(
                        {"kind": "again"} if again else {"kind": "error", "error": STOPPED}
                    )
                line.clear()
            self._moved.wait_for(lambda: not self._running, grace)
            for question in self._running.values():
                question.again = again
                question.gone.set()
            self._moved.notify_all()
            self._moved.wait_for(lambda: not self._running, PATIENCE)

    def _work(self, device: str) -> None:
        line = self._waiting[device]
        while True:
            with self._moved:
                self._moved.wait_for(lambda: line or self._closed)
                if not line:
                    return
                question = self._running[device] = line.pop(0)
                self._changed()
            message = self._answered(question, device)
            question.tell(message)
            with self._moved:
                del self._running[device]
                self._changed()

    def _changed(self) -> None:
        """Wake whoever waits for a change, and tell those whose place is another now."""
        self.last_moved = time.monotonic()
        for device, line in self._waiting.items():
            for place, question in enumerate(line, start=int(device in self._running)):
                if place != question.place:
                    question.place = place
                    question.tell({"kind": "queued", "place": place})
        self._moved.notify_all()


STOPPED = "The engine was stopped. What was finished is kept; ask again to go on."


# Jobs of a store, started one by one. Their line is what the store says, so the next engine finds
# it again; processes of jobs go on when their engine ends, and the next counts them as running.


EVERY = 1.0
"""Seconds between two looks at the line."""


class JobLine:
    """The line of one store's jobs. `device_of` says what a request's word for a device means
    here."""

    def __init__(self, store: Store, device_of: Callable[[str], str]) -> None:
        self.store, self.device_of = store, device_of
        self.busy = False
        """Whether a job ran or waited at the last look."""
        self.look_now = threading.Event()
        """Set to have the next look at once."""
        self._lock: TextIO | None = None
        self._begun: dict[
            str, tuple[subprocess.Popen, str]
        ] = {}  # job -> its process, and when it was submitted

    def take_over(self) -> bool:
        """Take over the store's line; from now on submitted jobs wait here. False where that is
        impossible: another engine has it, or the store cannot be written."""
        with contextlib.suppress(OSError):
            make_folder(self.store.jobs_folder)
        return self._has_line()

    def work(self, ended: threading.Event) -> None:
        """Look at the line until the engine ends."""
        while not ended.is_set():
            try:
                self.step()
            except Exception:  # a store that is damaged or gone ends no answer
                traceback.print_exc()
            self.look_now.wait(EVERY)
            self.look_now.clear()

    def step(self) -> None:
        """One look: start the next job of every device that is free."""
        if not self._has_line():
            self.busy = False
            return
        found = sorted(jobs.list_jobs(self.store), key=lambda state: (state.started, state.job_id))
        queued = [state for state in found if state.status == "queued"]
        alive = {job_id for job_id, (process, _) in self._begun.items() if process.poll() is None}
        up = alive | {
            state.job_id for state in queued if jobs.is_up(self.store.jobs_folder / state.job_id)
        }
        running = [state for state in found if state.status == "running" or state.job_id in up]
        self.busy = bool(running or queued)
        taken_devices = {self._device(state) for state in running}
        for state in queued:
            if state.job_id in up or self._died(state):
                continue
            if self._device(state) not in taken_devices:
                taken_devices.add(self._device(state))
                self._begun[state.job_id] = jobs.launch(self.store, state.job_id), state.started

    def close(self) -> None:
        """Leave the line to the next engine."""
        if self._lock is not None:
            self._lock.close()

    def _has_line(self) -> bool:
        """Whether the line is ours, now that it may have become free; a store that is gone is not
        made again."""
        if self._lock is None:
            with contextlib.suppress(OSError):
                self._lock = taken(jobs.line_lock(self.store))
        return self._lock is not None

    def _died(self, state: jobs.JobState) -> bool:
        """Whether the process of this job ended without a word; it is not started over and over
        again."""
        if self._begun.get(state.job_id, (None, ""))[1] != state.started:
            return False
        jobs.fail(self.store, state.job_id, "Its process ended at once. See log.txt in its folder.")
        return True

    def _device(self, state: jobs.JobState) -> str:
        try:
            return self.device_of(state.device or "auto")
        except PruneAuditError:  # its process will say so
            return state.device
