"""Whether a stored run can be believed: its files are as written, and its numbers follow from what was stored."""

from __future__ import annotations

from typing import Any

from engine.audit.tracks import track_of_run
from engine.store.runs import Run, damaged_tables


def verify_run(run: Run) -> dict[str, Any]:
    """{"ok": bool, "checks": [{"what", "ok"}]}: hashes of all tables and of what was added, then what can be computed
    again, in additions too."""
    damaged = damaged_tables(run)
    checks = [
        {"what": f"table {name} has the bytes that were written", "ok": name not in damaged}
        for name in run.meta["tables"]
    ]
    checks += [{"what": f"{one.id}, added {one.meta['created']}, has the bytes that were written", "ok": True}
               for one in run.added]  # fmt: skip
    checks += [{"what": f"{wrong} It is left out.", "ok": False} for wrong in run.damaged_additions.values()]
    if not damaged:
        checks += track_of_run(run).part("verify")(run)
    return {"ok": all(check["ok"] for check in checks), "run": run.id, "checks": checks}
