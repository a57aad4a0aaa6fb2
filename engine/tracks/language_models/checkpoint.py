"""Heads cut as weights: cut for real, and dense with zeros. Both are compared with the masked model
first."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.core.errors import Fault, MaskError, RequestError
from engine.report.model_card import model_card
from engine.store.runs import Run
from engine.tracks.language_models.masks import mask_record

PROMPTS = 8


def write_head_checkpoint(
    run: Run, variant: dict[str, Any], folder: Path, base: str | None = None
) -> list[Path]:
    """Below `folder`: cut/ (smaller; loads with `load_cut`), zeroed/ (loads anywhere; not for heads
    set to their means where the architecture has no bias to hold these), plain/ (smaller, and loads
    anywhere; where every layer keeps as many heads in whole groups and config.json can say so),
    agreement.json, README.md.

    Loads the run's model again (`base` names it where it moved). RequestError when the weights are
    not those of the run, or the variant cuts nothing; MaskError when masked, cut and zeroed models
    do not agree.
    """
    record = mask_record(run, variant)
    if not record.units:
        raise RequestError(
            Fault("variant", f"{variant['variant']!r} cuts nothing.", "Choose one that cuts heads.")
        )
    from engine.models.load_language_model import inspect_model, load_language_model
    from engine.surgery.heads.cut import can_be_zeroed, cut
    from engine.surgery.heads.even import even_faults, is_even, save_even, shape_of
    from engine.surgery.heads.mean_ablation import for_record
    from engine.surgery.heads.replay import check_mask_fits, load_cut, save_cut, save_zeroed

    name, revision = base or run.meta["request"]["model"], run.meta["request"].get("revision")
    check_mask_fits(record, inspect_model(name, revision))
    lm = for_record(load_language_model(name, device="cpu", revision=revision), record)
    folder.mkdir(parents=True, exist_ok=True)
    small = cut(lm, record.mask)
    paths = [save_cut(small, record, folder / "cut")]
    others = {"cut": small, "reloaded": load_cut(paths[0])}
    if can_be_zeroed(lm):
        paths.append(save_zeroed(lm, record.mask, folder / "zeroed"))
        others["zeroed"] = load_language_model(paths[1], device="cpu")
    can_say = not even_faults(lm.model.config) and lm.means is None and lm.adapter.cuts
    if can_say and is_even(record.mask, shape := shape_of(lm.model.config)):
        paths.append(save_even(small, shape, folder / "plain"))
        others["plain"] = load_language_model(paths[-1], device="cpu", as_arm=True)
    found = _agreement(run, lm, record.mask, others)
    paths.append(folder / "agreement.json")
    paths[-1].write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    paths.append(folder / "README.md")
    paths[-1].write_text(model_card(run, variant), encoding="utf-8")
    return paths


def _agreement(run: Run, lm: Any, mask: Any, others: dict[str, Any]) -> dict[str, Any]:
    """Masked against each way to run it; logits and greedy texts of a few of the run's own
    prompts."""
    from engine.surgery.equivalence import agree

    prompts = run.table("prompts").sort_values("prompt_id")["text"].head(PROMPTS).tolist()
    found = {name: asdict(agree(lm, mask, prompts, other)) for name, other in others.items()}
    if wrong := [name for name, one in found.items() if not one["holds"]]:
        raise MaskError(
            f"The masked model and the one saved as {', '.join(wrong)} do not agree; nothing was"
            " kept."
        )
    return found
