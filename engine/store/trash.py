"""Audits that were deleted: moved to STORE/trash/RUN, from where they can be had back.

Title and additions stay where they are, so that they are there again after an undo.
"""

from __future__ import annotations

import shutil

from engine.core.errors import Fault, RequestError, StoreError
from engine.core.files import explained, safe_id
from engine.store.runs import RUN, Run, RunSummary, Store


def delete(store: Store, run_id: str) -> RunSummary | None:
    """Move a run of this store to its trash; what it was, None where it cannot be read. Damaged
    runs can go too.

    RequestError for one that is not there, or not the user's own.
    """
    if store.read_only:
        what = f"{run_id!r} comes with the program and cannot be deleted."
        raise RequestError(Fault("run", what, "Only audits of your own store can."))
    if not store.has(run_id):
        store.open(run_id)  # says what is there
    path, target = store.runs_folder / run_id, store.root / "trash" / safe_id(run_id)
    found = _summary(store.open(run_id))
    with explained(store.root):
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists():
            shutil.rmtree(target)  # an audit of the same id that was deleted before: the same audit
        path.rename(target)
    return found


def restore(store: Store, run_id: str) -> Run:
    """Bring a deleted run back. RequestError where it is not in the trash, or was computed again
    meanwhile."""
    source, target = store.root / "trash" / safe_id(run_id), store.runs_folder / run_id
    if not (source / RUN).is_file():
        known = ", ".join(deleted(store)) or "nothing"
        raise RequestError(
            Fault("run", f"{run_id!r} is not in the trash of {store.root}.", f"There is: {known}.")
        )
    if target.exists():
        raise RequestError(
            Fault(
                "run", f"{run_id!r} is there again.", "It was computed anew since it was deleted."
            )
        )
    with explained(store.root):
        target.parent.mkdir(parents=True, exist_ok=True)
        source.rename(target)
    return store.open(run_id)


def deleted(store: Store) -> dict[str, RunSummary | None]:
    """What is in the trash, by id; None for what cannot be read."""
    folder = store.root / "trash"
    paths = sorted(path.parent for path in folder.glob(f"[!.]*/{RUN}")) if folder.is_dir() else []
    return {path.name: _summary(Run(path)) for path in paths}


def _summary(run: Run) -> RunSummary | None:
    try:
        return run.summary
    except StoreError:
        return None
