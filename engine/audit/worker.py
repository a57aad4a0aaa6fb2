"""The process behind a job: `python -m engine.audit.worker STORE JOB`. Started by `jobs.submit`, never by hand."""

from __future__ import annotations

import sys
import traceback

from engine.audit.jobs import job_request, run_job
from engine.errors import PruneAuditError
from engine.store.runs import Store


def main(root: str, job_id: str) -> int:
    """Do one job. What went wrong is in the job's state; the traceback goes to its log."""
    store = Store(root)
    try:
        run_job(store, job_request(store, job_id))
    except PruneAuditError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except Exception:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
