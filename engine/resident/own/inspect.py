"""inspect: what a model is and how it was read, before an audit of it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.audit.tracks import track_named
from engine.core.errors import Fault, RequestError
from engine.core.types import Hooks
from engine.resident.asks import Ask
from engine.resident.warm import Warm
from engine.store.runs import Store


class Inspect(Ask):
    """given: track, model, and what else of a request says how that is loaded (revision, weights,
    size, device). The
    answer: said, a list of sentences. One that is read by its structure is loaded once, to prove
    it.
    """

    name = "inspect"

    def answer(
        self, given: Mapping[str, Any], warm: Warm, hooks: Hooks, store: Store
    ) -> dict[str, Any]:
        if not str(given.get("model") or "").strip():
            raise RequestError(Fault("model", "is missing.", "Name a model, or give its folder."))
        return {"said": track_named(str(given.get("track") or "")).part("inspect")(given)}
