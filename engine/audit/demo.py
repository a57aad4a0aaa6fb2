"""Compute the embedded demo audit again: `python -m engine.audit.demo [STORE]`. Minutes on two cores."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from typing import Any

from engine.audit.jobs import run_job
from engine.audit.request import SEARCH, AuditRequest
from engine.audit.tracks import track_of_run
from engine.files import folder_whole
from engine.store.runs import EMBEDDED, Run, Store, default_root
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


def embed(request: Any, words: Sequence[str] = ()) -> None:
    """Audit in the user's store (or the one named), then put the run where the app looks for its demos."""
    run = run_job(Store(words[0] if words else default_root()), request, _tell)
    for old in Store(EMBEDDED, read_only=True).ids():
        if _same(Run(EMBEDDED / "runs" / old), run):
            shutil.rmtree(EMBEDDED / "runs" / old)
    with folder_whole(EMBEDDED / "runs" / run.id) as folder:
        shutil.copytree(run.path, folder, dirs_exist_ok=True)
    print(f"{EMBEDDED / 'runs' / run.id}")


def _same(one: Run, other: Run) -> bool:
    """Whether they show the same: the newer then takes the older one's place."""
    return track_of_run(one) is track_of_run(other) and one.meta["title"] == other.meta["title"]


def _tell(event: Event) -> None:
    print(f"\r\x1b[2K{event.phase} {event.done}/{event.total}", end="", file=sys.stderr)


if __name__ == "__main__":
    assert set(REQUEST.axes) == set(AXES)
    embed(REQUEST, sys.argv[1:])
