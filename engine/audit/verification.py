"""Whether a stored run can be believed: its files are as written, and its numbers follow from what
was stored."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from engine.audit.tracks import track_of_run
from engine.core.errors import StoreError
from engine.core.types import Values
from engine.store.runs import Run, damaged_tables
from engine.store.sealed import DamagedError, Shards


def verify_run(run: Run) -> Values:
    """{"ok": bool, "checks": [{"what", "ok"}]}: hashes of all tables and of what was added, then
    what can be computed again, in additions too."""
    damaged = run.damaged_additions.values()
    checks = _bytes(run) + [{"what": f"{why} It is left out.", "ok": False} for why in damaged]
    if not damaged_tables(run):
        checks += track_of_run(run).part("verify")(run)
    return {"ok": all(check["ok"] for check in checks), "run": run.id, "checks": checks}


def refuse_unsound(run: Run, numbers: bool = False) -> None:
    """DamagedError for a run that must not be handed out: tables, or parts that it rests on, with
    other bytes than were written. With `numbers`, also numbers that do not follow from what was
    stored. What was added and is damaged is left out of it.
    """
    wrong = [check["what"] for check in _bytes(run) if not check["ok"]]
    if not wrong and numbers:
        wrong = [
            check["what"] for check in track_of_run(run).part("verify")(run) if not check["ok"]
        ]
    if wrong:
        listed = "; ".join(what if " is damaged" in what else f"not so: {what}" for what in wrong)
        raise DamagedError(f"run {run.id} is not exported, because `runs verify` fails: {listed}")


def _bytes(run: Run) -> list[Values]:
    """Whether tables, additions and the parts that they rest on are as they were written."""
    damaged = damaged_tables(run)
    checks = [
        {"what": f"table {name} has the bytes that were written", "ok": name not in damaged}
        for name in run.meta["tables"]
    ]
    checks += [
        {
            "what": f"{one.id}, added {one.meta['created']}, has the bytes that were written",
            "ok": True,
        }
        for one in run.added
    ]
    return checks + _shards(run)


def _shards(run: Run) -> list[Values]:
    """Whether the parts that the run and its additions were computed from are still as they were
    written. Parts that are not there any more prove nothing: the run holds its own tables."""
    checks = []
    try:
        checks += _sound(f"run {run.id}", run.path.parent.parent, run.rests_on)
    except StoreError as error:
        checks.append({"what": str(error), "ok": False})
    for one in run.added:
        checks += _sound(f"addition {one.id}", one.path.parents[2], one.meta.get("shards") or {})
    return checks


def _sound(whose: str, root: Path, wanted: Mapping[str, str]) -> list[Values]:
    shards, sound, anew, damaged = Shards(root / "shards"), 0, 0, []
    for key, written in wanted.items():
        try:
            found = shards.hash_of(key)
        except DamagedError as error:
            damaged.append(
                {"what": f"{error} Delete it: it is computed again when it is needed.", "ok": False}
            )
            continue
        sound, anew = sound + (found == written), anew + (found not in (None, written))
    if not wanted:
        return []
    said = (
        f"{sound} of the {len(wanted)} finished parts that {whose} rests on have the bytes that"
        " were written"
    )
    gone = len(wanted) - sound - anew - len(damaged)
    more = [f"{anew} were computed anew since"] * bool(anew) + [
        f"{gone} are not in this store any more"
    ] * bool(gone)
    return [{"what": "; ".join([said, *more]), "ok": True}, *damaged]
