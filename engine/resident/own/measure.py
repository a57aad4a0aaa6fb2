"""measure: another level of an audit, or units chosen by hand, measured on the spot with the model
kept loaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.audit.growth import Growth
from engine.audit.tracks import track_of_run
from engine.core.types import Hooks
from engine.resident.asks import Ask
from engine.resident.warm import Warm
from engine.store.runs import EMBEDDED, Store, find_run


class Measure(Ask):
    """given: run (id), axis, and method and level or units (flat, from 0) and name; axes and split
    as in `engine.audit.growth.Growth`. The answer is what the track's `told` says; the run holds it
    from then on. Progress goes to `hooks.report`, as that of an audit.
    """

    name = "measure"

    def answer(
        self, given: Mapping[str, Any], warm: Warm, hooks: Hooks, store: Store
    ) -> dict[str, Any]:
        before = find_run(str(given.get("run") or ""), [store, Store(EMBEDDED, read_only=True)])
        track = track_of_run(before)
        growth = Growth.from_dict({"track": track.name, **given})
        after = track.part("grow")(growth, store, hooks, warm=warm)
        return track.part("told")(before, after, growth)
