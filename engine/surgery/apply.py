"""Cut a model for real as a mask file says: heads of a language model or a text classifier, or
filters."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from engine.core.errors import refusal
from engine.surgery.record import (
    KIND,
    MaskRecord,
    check_filter_mask_fits,
    check_mask_fits,
    kind_of_mask,
    read_filter_mask,
    read_mask,
)

if TYPE_CHECKING:
    from engine.surgery.record import FilterRecord


@dataclass(frozen=True)
class Applied:
    """A mask file and a model before and after it: `whole.model` and `cut.model` are torch modules.

    kind: "heads" of a language model, "texts" for heads of a text classifier, "filters" of an image
    classifier.
    """

    kind: Literal["heads", "texts", "filters"]
    record: MaskRecord | FilterRecord
    whole: Any
    cut: Any


def apply_mask(
    mask: str | Path,
    model: str | Path,
    weights: str | None = None,
    revision: str | None = None,
    device: str = "auto",
) -> Applied:
    """The model with and without what the mask file cuts. Weights are those of `model`: nothing is
    trained.

    mask: a mask.json, as exported. model: a name or folder, as for an audit; weights: a state dict,
    where `model` is an architecture. RequestError with every fault, before anything loads, where
    the mask is not of this model.
    """
    kind, model = kind_of_mask(mask), str(model)
    if kind == KIND:
        return _filters(mask, model, weights, device)
    if kind == "weights":
        what = (
            "is about single weights that are zero: it cuts nothing, and does not hold which ones."
        )
        raise refusal(str(mask), what, "Export the checkpoint of the training instead.")
    from engine.models.load_text_classifier import is_text_model

    return (_texts if is_text_model(model, revision) else _heads)(mask, model, revision, device)


def _heads(mask: str | Path, model: str, revision: str | None, device: str) -> Applied:
    from engine.models.load_language_model import inspect_model, load_language_model
    from engine.surgery.heads.mask import cut, for_record

    record = read_mask(mask)
    check_mask_fits(record, inspect_model(model, revision))
    whole = for_record(load_language_model(model, device=device, revision=revision), record)
    return Applied("heads", record, whole, cut(whole, record.mask))


def _texts(mask: str | Path, model: str, revision: str | None, device: str) -> Applied:
    from engine.models.load_text_classifier import (
        inspect_text_model,
        load_text_classifier,
        usual_length,
    )
    from engine.surgery.heads.mask import cut

    record, info = read_mask(mask), inspect_text_model(model, revision)
    check_mask_fits(record, info)
    if not info.has_head:
        what = "has no classification head, so there is no classifier to cut."
        raise refusal(info.name, what, "Export the checkpoint of the audit instead.")
    names = info.classes or tuple(str(place) for place in range(info.n_labels))
    whole = load_text_classifier(
        model, names, device=device, revision=revision, max_length=usual_length(info)
    )
    return Applied("texts", record, whole, cut(whole, record.mask))


def _filters(mask: str | Path, model: str, weights: str | None, device: str) -> Applied:
    from engine.models.load_image_classifier import inspect_classifier, load_classifier
    from engine.surgery.filters.graph import replayed

    record = read_filter_mask(mask)
    info = inspect_classifier(model, weights, classes=record.classes, size=record.size)
    check_filter_mask_fits(record, info.arch, info.weight_hash, info.name)
    whole = load_classifier(model, weights, classes=record.classes, size=record.size, device=device)
    return Applied("filters", record, whole, replayed(whole, record.history, record.mask))
