"""Compute the embedded demo audit again: `python -m engine.audit.demo [STORE]`. Minutes on two cores."""

from __future__ import annotations

import shutil
import sys

from engine.audit.jobs import run_job
from engine.audit.request import SEARCH, AuditRequest
from engine.files import folder_whole
from engine.store.runs import EMBEDDED, Store, default_root
from engine.types import AXES, Event

REQUEST = AuditRequest(
    model="demo-gpt2",
    axes=("nationality", "race_ethnicity", "gender_and_sex", "sexual_orientation", "religion"),
    gamma=SEARCH,
    sparsities=(0.0, 0.05, 0.1, 0.2, 0.3),
    seeds=2,
    max_prompts=300,
    title="Demo: a small language model with a planted gap",
)


def main() -> None:
    """Audit in the user's store, then put the finished run where the app looks for its demo."""
    assert set(REQUEST.axes) == set(AXES)
    run = run_job(Store(sys.argv[1] if len(sys.argv) > 1 else default_root()), REQUEST, _tell)
    with folder_whole(EMBEDDED / "runs") as folder:
        shutil.copytree(run.path, folder / run.id)
    print(f"{EMBEDDED / 'runs' / run.id}")


def _tell(event: Event) -> None:
    print(f"\r\x1b[2K{event.phase} {event.done}/{event.total}", end="", file=sys.stderr)


if __name__ == "__main__":
    main()
