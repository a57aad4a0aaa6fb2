"""Jobs of a store started one by one: one runs per device, the others wait in line, the oldest
first.

The line is what the store says, so the next engine finds it again; processes of jobs go on when
their engine ends, and the next one counts them as running.
"""

from __future__ import annotations

import contextlib
import subprocess
import threading
import traceback
from collections.abc import Callable
from typing import TextIO

from engine.audit import jobs
from engine.audit.turn import device_named
from engine.core.errors import PruneAuditError
from engine.core.files import taken
from engine.store.runs import Store

EVERY = 1.0
"""Seconds between two looks at the line."""


class Batch:
    """The line of one store's jobs. `device_of` says what a request's word for a device means
    here."""

    def __init__(self, store: Store, device_of: Callable[[str], str] = device_named) -> None:
        self.store, self.device_of = store, device_of
        self.busy = False
        """Whether a job ran or waited at the last look."""
        self.look = threading.Event()
        """Set to have the next look at once."""
        self._lock: TextIO | None = None
        self._begun: dict[
            str, tuple[subprocess.Popen, str]
        ] = {}  # job -> its process, and when it was submitted

    def serve(self) -> bool:
        """Take over the store's line; from now on submitted jobs wait here. False where that is
        impossible: another engine has it, or the store cannot be written."""
        with contextlib.suppress(OSError):
            self.store.jobs_folder.mkdir(parents=True, exist_ok=True)
        return self._has_line()

    def work(self, ended: threading.Event) -> None:
        """Look at the line until the engine ends."""
        while not ended.is_set():
            try:
                self.step()
            except Exception:  # a store that is damaged or gone ends no answer
                traceback.print_exc()
            self.look.wait(EVERY)
            self.look.clear()

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
