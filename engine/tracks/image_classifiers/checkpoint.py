"""A cut classifier as it was retrained, ready to load: checked against the answers that the audit
stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engine.classifiers.images.checkpoint import dense_classifier, write_cut
from engine.classifiers.stored_weights import first_repeat, kept_weights
from engine.store.runs import Run
from engine.tracks.image_classifiers.masks import filter_record


def write_filter_checkpoint(
    run: Run, variant: dict[str, Any], folder: Path, base: str | None = None
) -> list[Path]:
    """Below `folder`: cut.safetensors, mask.json, model.json (loads with `load_cut_classifier`),
    agreement.json.

    A pooled variant stands for its first trial. Loads the run's model again (`base` names it where
    it moved). RequestError where the weights of this trial were not kept or the model is not the
    run's; MaskError where the reloaded model does not answer as the audit says.
    """
    trial = first_repeat(run, variant)
    arrays = kept_weights(run, trial["variant"])
    return write_cut(
        run,
        trial["variant"],
        filter_record(run, trial),
        dense_classifier(run, base),
        arrays,
        folder,
    )
