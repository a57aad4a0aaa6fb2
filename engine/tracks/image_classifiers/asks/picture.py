"""picture: what the dense and a pruned classifier answer to an image, and where each of them
looks."""

from __future__ import annotations

from typing import Any

from engine.core.types import Values
from engine.report.one_input import PictureAsk
from engine.store.runs import Run
from engine.tracks.image_classifiers.checkpoint import mask_record


class Picture(PictureAsk):
    """Of filters that are cut and retrained."""

    name = "picture"

    def cut(self, run: Run, variant: Values, dense: Any, arrays: dict[str, Any]) -> Any:
        from engine.classifiers.images.checkpoint import cut_with  # torch

        return cut_with(dense, mask_record(run, variant), arrays) if variant["n_cut"] else dense
