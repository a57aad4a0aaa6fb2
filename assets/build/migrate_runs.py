"""Brings runs of earlier versions under the ids of this one: `python -m assets.build.migrate_runs [STORE]`.

Only a run that this version would compute again to the number: the versions of all its code are those it was computed
with, and its old id follows from what it was asked, its weights and its data as they lie here. Tables are not touched,
which is proved by their hashes. Every other run stays as it is, and why is said; so does one to which something was
added, here or in the user's own store: the id of an addition follows from the run's, and would be left without a run.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.audit.request import Plan, run_id_of, said
from engine.audit.tracks import request_from, track_of_request
from engine.core.errors import PruneAuditError
from engine.core.files import folder_whole, json_able
from engine.store.runs import EMBEDDED, Run, Store, damaged_tables, default_root, write_meta

NOT_RECORDED: Mapping[str, int] = {f"score z_bias by {name}": 1 for name in ("generate", "gradient", "reweight")}
"""Code that runs were computed with before they recorded its version, and the version it had then."""


def migrate(store: Store) -> dict[str, str]:
    """Old id -> new id, or why a run was left alone."""
    stores = {one.root.resolve(): one for one in (store, Store(default_root()))}.values()
    found = {}
    for run_id in store.ids():
        added = sum(len(one.additions(run_id)) for one in stores)
        found[run_id] = _migrated(Run(store.runs_folder / run_id), added)
    return found


def _migrated(run: Run, added: int) -> str:
    try:
        request = request_from({**run.meta["request"], "track": run.meta.get("track")})
        plan = track_of_request(request).part("validate")(request)
        why = _differs(run, plan)
        if not why and added and plan.run_id != run.id:
            why = f"{added} addition{'s' * (added > 1)} would be lost; export what they hold, or remove them"
        return f"left alone: {why}" if why else _moved(run, plan)
    except PruneAuditError as error:
        return f"left alone: {error}"


def _differs(run: Run, plan: Plan) -> str:
    """Why this version would not compute the run as it is; "" where it would."""
    recorded = run.meta["provenance"].get("code", {})
    changed = _changed(recorded, plan.versions)
    if changed:
        return f"other code computed it: {', '.join(changed)}"
    if run.id != run_id_of(said(plan.request, run.meta["request"], "value"), plan.content, recorded):
        return "the weights or the data here are others, or its id was made in another way"
    return "its tables are damaged" if damaged_tables(run) else ""


def _changed(recorded: Mapping[str, int], now: Mapping[str, int]) -> list[str]:
    """Names of code whose versions differ, versions that were not recorded taken as they were."""
    known = {**{name: version for name, version in NOT_RECORDED.items() if name in now}, **recorded}
    return sorted(name for name in {*known, *now} if known.get(name) != now.get(name))


def _moved(run: Run, plan: Plan) -> str:
    """The new id, once the run lies under it: written whole beside the old one, which goes last."""
    target = Run(run.path.parent / plan.run_id)
    if target.path == run.path:
        return run.id
    if not target.path.exists():
        _write(run, target.path, plan)
    if target.meta["tables"] != run.meta["tables"] or damaged_tables(target):
        return f"left alone: another run is under {target.id} already"
    gone = run.path.with_name(f".{run.id}")
    shutil.rmtree(gone, ignore_errors=True)
    run.path.rename(gone)
    shutil.rmtree(gone)
    return target.id


def _write(run: Run, target: Path, plan: Plan) -> None:
    """The run as it would be written today, its tables byte for byte."""
    meta = {**run.meta, "id": target.name, "track": plan.request.track, "request": json_able(plan.spelled_out())}
    meta["provenance"] = {**run.meta["provenance"], "code": plan.versions}
    with folder_whole(target) as folder:
        for name in run.meta["tables"]:
            shutil.copyfile(run.path / f"{name}.parquet", folder / f"{name}.parquet")
        write_meta(folder, meta, run.rests_on)


def main(words: list[str]) -> Any:
    found = migrate(Store(Path(words[0]) if words else EMBEDDED))
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main(sys.argv[1:])
