"""The process behind a job: `python -m engine.audit.worker STORE JOB`. Started by `jobs.submit`,
never by hand."""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.audit.session import Executor

LOOK, GRACE = 0.05, 0.4
"""Seconds between two looks for a cancel, and those that a cancelled job has to come to the end of
a batch."""


def main(root: str, job_id: str) -> int:
    """Do one job. What went wrong is in the job's state; the traceback goes to its log."""
    ready = threading.Event()
    threading.Thread(
        target=leave_when_cancelled, args=(Path(root) / "jobs" / job_id, ready), daemon=True
    ).start()
    # Here and not above: they take a second, on a busy machine more, and a cancel is heeded
    # meanwhile.
    from engine.audit.jobs import job_request, job_state, run_job
    from engine.core import memory
    from engine.core.errors import PruneAuditError
    from engine.core.text import visible
    from engine.store.runs import Store

    ready.set()
    store = Store(root)
    try:
        request = job_request(store, job_id)
        said = job_state(store, job_id)
        if said.memory:
            os.environ[memory.STATED] = said.memory
        run_job(store, request, executor=_executor(said.ray), submitted=True)
    except PruneAuditError as error:
        print(visible(str(error)), file=sys.stderr)
        return error.exit_code
    except Exception:
        print(visible(traceback.format_exc()), file=sys.stderr)
        return 1
    return 0


def leave_when_cancelled(
    folder: Path,
    ready: threading.Event,
    wait: Callable[[float], None] = time.sleep,
    leave: Callable[[int], object] = os._exit,
) -> None:
    """Wait for the file `cancel`, then, once modules are imported, for the end of a batch; then
    end the process, whatever the job is at.

    A batch of a large model on a CPU takes longer than a user wants to wait. Everything is written
    whole or not at all, so a process may end anywhere. Nothing is written, which on a busy disk
    takes seconds: a job with that file whose process is gone was cancelled. Also one that has come
    to its end does not take its interpreter down: that takes as long as a batch. One that failed
    leaves by itself, once its traceback is in the log.
    """
    while not (folder / "cancel").exists():
        wait(LOOK)
    if ready.is_set():
        from engine.audit.jobs import has_failed

        wait(GRACE)
        if has_failed(folder):
            return
    leave(1)


def _executor(asked: str) -> Executor | None:
    """The cluster that the job was given, or that the app was started with (PRUNEAUDIT_RAY); None:
    this process."""
    address = asked or os.environ.get("PRUNEAUDIT_RAY")
    if not address:
        return None
    from engine.audit.ray_executor import OnRay

    return OnRay(address)


def leave(code: int) -> None:
    """End this process now. Taking the interpreter down takes seconds on a busy machine, and a
    cancel waits for it; nothing is left to be written. A driver of a cluster says goodbye to it
    first."""
    if "ray" in sys.modules:
        sys.exit(code)
    sys.stdout.flush(), sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    leave(main(*sys.argv[1:3]))
