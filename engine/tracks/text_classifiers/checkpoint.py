"""A text classifier with heads cut as weights, ready to load: checked against the answers that the
audit stored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from engine.classifiers.tables import first_repeat, hold_or_refuse, kept_weights, not_one_cut
from engine.core.errors import refusal
from engine.core.types import HeadMask, Values
from engine.store.runs import Run
from engine.surgery.record import MaskRecord, run_record

PROBES = 64
"""Test texts that the reloaded model is asked about again."""
AT_ONCE = 16
TOLERANCE = 1e-3
"""Largest difference of a probability that other hardware may make."""


def write_checkpoint(
    run: Run, variant: Values, folder: Path, base: str | None = None
) -> list[Path]:
    """Below `folder`: config.json, weights, tokenizer, mask.json (loads with
    `load_cut_classifier`), agreement.json.

    A pooled variant stands for its first seed. Loads the run's model again (`base` names it where
    it moved), cuts it, and fills in what was fine-tuned. RequestError where weights were not kept
    or the model is not the run's; MaskError where the reloaded model does not answer as the audit
    says.
    """
    from engine.surgery.filters.replay import same_weights
    from engine.surgery.heads.replay import load_cut_classifier, save_cut_classifier

    seed = first_repeat(run, variant)
    record = mask_record(run, seed)
    small = cut_classifier(run, seed, record.mask, base)
    folder = save_cut_classifier(small, record, folder)
    again = load_cut_classifier(folder, device="cpu")
    found = {
        "same_weights": same_weights(small, again),
        **answers_agree(run, seed["variant"], again),
    }
    hold_or_refuse(folder, found)
    return sorted(folder.iterdir())


def cut_classifier(run: Run, seed: Values, mask: Any, base: str | None) -> Any:
    """The classifier of one seed without its heads: fine-tuned after the cut, or the full model's
    weights cut."""
    from engine.surgery.filters.graph import with_weights
    from engine.surgery.heads.mask import cut

    if seed["retrained"]:
        arrays = kept_weights(run, seed["variant"])
        return with_weights(cut(start_of(run, base, new_head=True), mask), arrays)
    if not retuned(run):
        return cut(start_of(run, base, new_head=False), mask)
    arrays = kept_weights(run, f"dense#{int(seed['seed'])}")
    return cut(with_weights(start_of(run, base, new_head=True), arrays), mask)


def retuned(run: Run) -> bool:
    """Whether every seed fine-tuned a full model of its own, rather than taking one as it came."""
    return bool(run.request.get("retune"))


def start_of(run: Run, base: str | None, new_head: bool) -> Any:
    """The run's model, whole. RequestError unless its weights are the run's, before or after
    fine-tuning."""
    from engine.models.load_text_classifier import load_text_classifier

    model = run.model
    name = str(base or run.request["model"])
    found = load_text_classifier(
        name,
        tuple(model["classes"]),
        device="cpu",
        max_length=int(model["max_length"]),
        new_head=new_head,
    )
    known = [model["weight_hash"], *([model.get("pretrained_hash")] if new_head else [])]
    if found.weight_hash not in known:
        what = (
            f"has weights {found.weight_hash[:16]}…, the audit was of {model['weight_hash'][:16]}…."
        )
        raise refusal(name, what, "Give the model that was audited (--base).")
    return found


def answers_agree(run: Run, variant: str, classifier: Any) -> Values:
    """Answers of the reloaded model against the stored ones, on the first test texts by id; None
    where the audit was handed on without its texts."""
    texts = run.table("texts")
    texts = texts[texts["split"] == "test"].sort_values("text_id").head(PROBES)
    stored = run.table("predictions")
    stored = stored[stored["variant"] == variant].set_index("text_id").filter(regex="^p_")
    if texts.empty or not set(texts["text_id"]) <= set(stored.index):
        return {"texts": 0, "holds": False, "why": "The run holds no answers of this variant."}
    if not texts["text"].any():
        return {"texts": 0, "holds": None, "why": "The audit was handed on without its texts."}
    from engine.models.load_text_classifier import probabilities_of

    second = texts["text_b"].tolist()
    again = probabilities_of(
        classifier, texts["text"].tolist(), second if any(second) else None, AT_ONCE
    )
    difference = float(np.abs(again - stored.loc[texts["text_id"]].to_numpy()).max())
    return {"texts": len(texts), "largest_difference": difference, "holds": difference <= TOLERANCE}


SETTINGS = (
    "first_seed",
    "step",
    "score_settings",
    "score_texts",
    "length_filter",
    "max_length",
    "tune",
)
"""Fields of the request that decide which heads are cut and what the cut model is worth."""


def mask_record(run: Run, variant: Values) -> MaskRecord:
    """The record of one seed's row of the variants table. RequestError for a row that is no seed's,
    or cuts nothing."""
    if not variant["cut"] or not variant["n_cut"]:
        raise not_one_cut(variant, "seed")
    model, request = run.model, run.request
    mask = HeadMask.from_units(model["n_layers"], model["n_heads"], json.loads(variant["cut"]))
    retrained = bool(variant["retrained"])
    settings = {
        "variant": variant["variant"],
        "seed": int(variant["seed"]),
        "procedure": str(variant["base"]),
        "score": str(variant["score"]),
        "trained": "from the pre-trained weights, after the cut" if retrained else "before the cut",
        "pretrained_hash": model.get("pretrained_hash"),
        "data": run.data["digest"],
        **{name: request[name] for name in SETTINGS if name in request},
    }
    return run_record(run, variant, mask, settings)
