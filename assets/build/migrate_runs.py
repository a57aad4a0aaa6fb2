"""Brings runs of earlier versions under the ids of this one: `python -m assets.build.migrate_runs [STORE]`.

A run's id names its track by the folder's name and holds the version of all code that computed it. Tables are not
touched, which is proved by their hashes; a run whose model or data is not here any more stays as it is.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from engine.audit.tracks import request_from, track_of_request, track_of_run
from engine.core.errors import PruneAuditError
from engine.core.files import json_able, write_json
from engine.store.runs import EMBEDDED, Run, Store, damaged_tables


FORMER: dict[str, dict[str, Any]] = {"fair_training": {"equal": "filters"}}
"""By track: what a request meant by leaving a field out, before there was one, where that is not today's default."""


def migrate(store: Store) -> dict[str, str]:
    """Old id -> new id, or why a run was left alone."""
    return {run_id: _migrated(Run(store.runs_folder / run_id)) for run_id in store.ids()}


def _migrated(run: Run) -> str:
    try:
        former = FORMER.get(track_of_run(run).name, {})
        request = request_from({"track": run.meta.get("track"), **former, **run.meta["request"]})
        plan = track_of_request(request).part("validate")(request)
    except PruneAuditError as error:
        return f"left alone: {error}"
    if run.meta["model"].get("starting_weight_hash", run.meta["model"]["weight_hash"]) != plan.model.weight_hash:
        return "left alone: the model here is another one"
    if damaged_tables(run):
        return "left alone: its tables are damaged"
    target = run.path.parent / plan.run_id
    if target == run.path:
        return run.id
    if target.exists():
        return f"left alone: {target.name} is here already"
    meta = {**run.meta, "id": plan.run_id, "track": request.track, "request": json_able(plan.spelled_out())}
    meta["provenance"] = {**run.meta["provenance"], "code": plan.versions}
    run.path.rename(target)
    write_json(target / "run.json", meta)
    assert not damaged_tables(Run(target)), "a table changed on its way"
    return plan.run_id


def main(words: list[str]) -> Any:
    found = migrate(Store(Path(words[0]) if words else EMBEDDED))
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main(sys.argv[1:])
