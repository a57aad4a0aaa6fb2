"""trained picture: what the starting model and a trained one answer to an image, and where each of
them looks."""

from __future__ import annotations

from typing import Any

from engine.core.types import Values
from engine.report.one_input import PictureAsk
from engine.store.runs import Run
from engine.tracks.fair_training.checkpoint import WEIGHTS, fair_record


class TrainedPicture(PictureAsk):
    """Of filters that are cut, and of weights that are zero; either way as trained."""

    name = "trained picture"

    def cut(self, run: Run, variant: Values, dense: Any, arrays: dict[str, Any]) -> Any:
        from engine.classifiers.images.checkpoint import cut_with  # torch
        from engine.surgery.filters.graph import with_weights

        whole = variant["units"] == WEIGHTS or not variant["n_cut"]
        return (
            with_weights(dense, arrays)
            if whole
            else cut_with(dense, fair_record(run, variant), arrays)
        )
