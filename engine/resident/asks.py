"""What can be asked of the engine on the spot. One kind of question is one file in a track's folder
`asks`, or in `own` where it is of no track, found by being there; what it needs loaded it takes
from `Warm`, so that the second question finds it in memory."""

from __future__ import annotations

import importlib
import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from engine.audit.tracks import tracks
from engine.core.discover import members
from engine.core.errors import RequestError, unknown
from engine.core.types import Hooks
from engine.resident.warm import Warm
from engine.store.runs import Store

OWN = "engine.resident.own"
"""Questions of no track."""


class Ask(ABC):
    """One kind of question. `given` and the answer are JSON-able; rows told by `hooks.point` reach
    the asker at once, one by one, and `hooks.check` raises Cancelled once nobody waits for the
    answer any more."""

    name: str

    @abstractmethod
    def answer(
        self, given: Mapping[str, Any], warm: Warm, hooks: Hooks, store: Store
    ) -> dict[str, Any]:
        """The answer. RequestError with every fault of what was given."""


def asks() -> dict[str, Ask]:
    """Every question there is, by name."""
    folders = [OWN, *(f"{entry.package}.asks" for entry in tracks().values())]
    found = [
        importlib.import_module(folder) for folder in folders if importlib.util.find_spec(folder)
    ]
    return {one.name: one for package in found for one in members(package, Ask)}


def answer_here(
    name: str,
    given: Mapping[str, Any],
    store: Store,
    hooks: Hooks = Hooks(),  # noqa: B008  (frozen)
    warm: Warm | None = None,
) -> dict[str, Any]:
    """The answer, computed in this process. RequestError for a question that nobody knows."""
    known = asks()
    if name not in known:
        raise RequestError(unknown("question", name, known))
    return known[name].answer(given, warm or Warm(), hooks, store)
