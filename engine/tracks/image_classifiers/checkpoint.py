"""A cut classifier as it was retrained, ready to load: checked against the answers that the audit
stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engine.classifiers.images.checkpoint import dense_classifier, record_of, write_cut
from engine.classifiers.tables import first_repeat, kept_weights, not_one_cut
from engine.core.types import Values
from engine.report.one_input import PictureAsk
from engine.store.runs import Run
from engine.surgery.record import FilterRecord


def write_checkpoint(
    run: Run, variant: Values, folder: Path, base: str | None = None
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
        mask_record(run, trial),
        dense_classifier(run, base),
        arrays,
        folder,
    )


# mask.json of one trial that cuts filters: which, of which model, chosen how, and the history
# that replays the cut.


def mask_record(run: Run, variant: Values) -> FilterRecord:
    """The record of one trial's row of the variants table. RequestError for a row that is no trial,
    or cuts nothing."""
    if not variant["cut"] or not variant["n_cut"]:
        raise not_one_cut(variant, "trial")
    request, data = run.request, run.data
    base = str(variant["base"])
    settings = {
        "variant": variant["variant"],
        "trial": int(variant["seed"]),
        "first_seed": request.get("first_seed", 0),
        "method_settings": (request.get("method_settings") or {}).get(base, {}),
        "pw": (request.get("pw") or {}).get(base, {}),
        "retrain": request.get("retrain") or {},
        "data": data["digest"],
        "target": data.get("target", ""),
    }
    speedups = {
        "asked_speedup": float(variant["speedup"]),
        "achieved_speedup": float(variant["achieved"]),
    }
    return record_of(
        run, variant, method=base, loss=str(variant["loss"]), settings=settings, **speedups
    )


# What the dense and a pruned classifier answer to an image, and where each of them looks.


class Picture(PictureAsk):
    """Of filters that are cut and retrained."""

    name = "picture"

    def cut(self, run: Run, variant: Values, dense: Any, arrays: dict[str, Any]) -> Any:
        from engine.classifiers.images.checkpoint import cut_with  # torch

        return cut_with(dense, mask_record(run, variant), arrays) if variant["n_cut"] else dense
