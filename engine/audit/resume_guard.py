"""What an unfinished audit was begun with, so that resuming it with other data or weights is
noticed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engine.audit.request import Plan
from engine.core.errors import Fault, RequestError, StoreError
from engine.core.types import digest_of
from engine.store.runs import Store
from engine.store.sealed import read_document, write_document


def begin(store: Store, plan: Plan) -> None:
    """Note what the audit rests on. RequestError where the same words were begun with other data or
    weights.

    Parts are kept under the digest of what they were computed from, so nothing is ever mixed; but a
    user who resumes expects to go on, and must hear that nothing of the earlier try will be used.
    """
    path = _path(store, plan)
    earlier = _read(path)
    if earlier is not None and earlier != plan.content and not plan.request.restart:
        what = "changed since this audit was begun, so none of its finished parts can be used."
        raise RequestError(
            Fault("data or weights", what, "Put the old ones back, or begin again with --restart.")
        )
    write_document(path, {"content": plan.content}, 1)


def ended(store: Store, plan: Plan) -> None:
    """Forget what the audit was begun with: it is finished."""
    _path(store, plan).unlink(missing_ok=True)


def _path(store: Store, plan: Plan) -> Path:
    return store.root / "begun" / f"{digest_of(plan.request.identity)[:16]}.json"


def _read(path: Path) -> list[Any] | None:
    """What was noted; None for a note that is damaged, or of a version that kept no hash: it guards
    nothing."""
    try:
        return read_document(path, "what an audit was begun with", 1)["content"]
    except (StoreError, KeyError):
        return None
