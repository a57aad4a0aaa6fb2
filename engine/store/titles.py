"""What a person calls an audit: STORE/titles/RUN.json, beside the run and never in it. An audit is
not written again.

It lies in the user's store wherever the run lies, so that the embedded audits can be called
something else too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

from engine.core.errors import Fault, RequestError, StoreError
from engine.core.files import explained, safe_id
from engine.store.sealed import read_document, write_document

SCHEMA = 1
LONGEST = 200
"""Characters of a title."""


def path_of(root: Path, run_id: str) -> Path:
    return root / "titles" / f"{safe_id(run_id)}.json"


def title_of(root: Path, run_id: str) -> str:
    """What a store calls a run; "" where it says nothing, or nothing that can be read: the run's
    own title serves."""
    path = path_of(root, run_id)
    with contextlib.suppress(StoreError):
        if path.is_file():
            return str(read_document(path, f"title of {run_id}", SCHEMA).get("title") or "")
    return ""


def called(roots: Iterable[Path], run_id: str) -> str:
    """What the first of several stores that has a name for a run calls it; "" where none has."""
    return next(filter(None, (title_of(root, run_id) for root in roots)), "")


def rename(root: Path, run_id: str, title: str) -> str:
    """Call a run something else from now on; the title as it is kept. An empty one gives the run
    its own name back."""
    kept = " ".join("".join(letter if letter.isprintable() else " " for letter in title).split())
    if len(kept) > LONGEST:
        raise RequestError(
            Fault("title", f"has {len(kept)} characters.", f"Use at most {LONGEST}.")
        )
    path = path_of(root, run_id)
    with explained(root):
        if not kept:
            path.unlink(missing_ok=True)
            return ""
        path.parent.mkdir(parents=True, exist_ok=True)
    write_document(path, {"run": run_id, "title": kept}, SCHEMA)
    return kept
