"""The process behind a job: `python -m engine.audit.worker STORE JOB`. Started by `jobs.submit`,
never by hand."""

from __future__ import annotations

import os
import sys
import threading
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.audit.session import Executor

LOOK = 0.05
"""Seconds between two looks for a cancel while modules are imported."""


def main(root: str, job_id: str) -> int:
    """Do one job. What went wrong is in the job's state; the traceback goes to its log."""
    ready = threading.Event()
    threading.Thread(
        target=leave_while_importing, args=(Path(root) / "jobs" / job_id, ready), daemon=True
    ).start()
    # Here and not above: they take a second, on a busy machine more, and a cancel is heeded
    # meanwhile.
    from engine.audit.jobs import job_request, job_state, leave_when_cancelled, run_job
    from engine.core import memory
    from engine.core.errors import PruneAuditError
    from engine.core.text import visible
    from engine.store.runs import Store

    ready.set()
    store = Store(root)
    try:
        leave_when_cancelled(store, job_id)  # first: reading the request loads what takes seconds
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


def leave_while_importing(folder: Path, ready: threading.Event) -> None:
    """End the process where a cancel comes before anything began: a job that waits and has one
    counts as cancelled."""
    while not ready.wait(LOOK):
        if (folder / "cancel").exists():
            os._exit(0)


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
