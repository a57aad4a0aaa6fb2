"""What a dense and a cut image classifier answer to a picture: the question that tracks of image
classifiers share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from engine.classifiers.images.picture import WAYS, pixels_of
from engine.core.errors import RequestError, unknown
from engine.core.types import Hooks
from engine.report.one_input import asked_model
from engine.report.tracks import track_of
from engine.resident.asks import Ask
from engine.resident.warm import Warm
from engine.store.runs import EMBEDDED, Run, Store, find_run

KNOWN = ("run", "image", "file", "variant", "way")


class PictureAsk(Ask):
    """given: run (id), image (id of a picture that the run kept) or file (a PNG or JPEG in base64).
    Also variant (id; else the one where readers start) and way (one of WAYS).

    The answer: run, cut (in words), gone (what is, in words), classes, way, notes. target is the
    dense model's answer, that maps are of; window the side of the square that occlusion hides, in
    pixels. size and picture: what the models saw, PNG in base64. dense and pruned, each with
    probabilities [classes], answer, layer (that Grad-CAM reads, else "") and map [rows][columns]. A
    map's value is what hiding that place takes from the log-odds of the target, or Grad-CAM's
    value.
    """

    @abstractmethod
    def cut(self, run: Run, variant: dict[str, Any], dense: Any, arrays: dict[str, Any]) -> Any:
        """The model of a variant's row, of the dense one and its own kept weights. May load
        torch."""

    def answer(
        self, given: Mapping[str, Any], warm: Warm, hooks: Hooks, store: Store
    ) -> dict[str, Any]:
        run = find_run(str(given.get("run") or ""), [store, Store(EMBEDDED, read_only=True)])
        faults, way = [], given.get("way") or WAYS[0]
        if way not in WAYS:
            faults.append(unknown("way", way, WAYS))
        try:
            pixels, notes = pixels_of(given, run)
        except RequestError as error:
            faults += error.faults
        model = asked_model(given, run, KNOWN, faults)  # raises what was found so far
        from engine.classifiers.images.side_by_side import answered, pair_of  # torch

        dense, pruned, more = pair_of(run, model.variant, self.cut, warm)
        about = {
            "run": run.id,
            "cut": model.label,
            "gone": track_of(run).cut_of(run, model.variant),
        }
        own = (
            dense.notes if run.meta["request"].get("train") is None else ()
        )  # of what is fitted they say nothing
        said = [*notes, *own, *model.notes, *more]
        return {**about, **answered(dense, pruned, pixels, way, hooks), "notes": said}
