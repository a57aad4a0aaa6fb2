"""picture: what the dense and a pruned classifier answer to an image, and where each of them looks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.core.types import Hooks
from engine.resident.asks import Ask
from engine.resident.warm import Warm
from engine.store.runs import EMBEDDED, Store, find_run
from engine.tracks.image_classifiers.picture import question_of


class Picture(Ask):
    """given: run (id), image (id of a picture that the run kept) or file (a PNG or JPEG in base64), variant (id; else
    the one where readers start).

    The answer: run, cut (in words), filters (how many are gone), classes, target (the dense model's answer, that maps
    are of), window (side of the hidden square, in pixels), size, picture (what the models saw, PNG in base64), notes;
    dense and pruned, each with probabilities [classes], answer, map [rows][columns]: what hiding that place takes from
    the log-odds of the target.
    """

    name = "picture"

    def answer(self, given: Mapping[str, Any], warm: Warm, hooks: Hooks, store: Store) -> dict[str, Any]:
        run = find_run(str(given.get("run") or ""), [store, Store(EMBEDDED, read_only=True)])
        question = question_of(given, run)
        from engine.tracks.image_classifiers.where_it_looks import answered, pair_of  # torch

        return answered(question, pair_of(question, warm), hooks)
