"""Variants as files: checkpoints of cut heads and of arms, proved to agree with what was measured,
and mask.json."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.core.errors import MaskError, refusal
from engine.core.types import HeadMask, Values
from engine.report.charts import lookup
from engine.store.runs import Run
from engine.surgery.record import MaskRecord, check_mask_fits, run_record
from engine.tracks.language_models.arms import arm_of, arms_of, is_arm
from engine.tracks.language_models.context import PromptContext
from engine.tracks.language_models.request import PromptPlan, planned, prompt_plan_of
from engine.tracks.language_models.words import RANKED_BY_NOISE, is_against

if TYPE_CHECKING:
    from engine.models.load_language_model import LanguageModel
    from engine.surgery.agreement import Agreement


PROBES = 8


def write_checkpoint(
    run: Run, variant: Values, folder: Path, base: str | None = None
) -> list[Path]:
    """A pruned variant, or an arm, as weights; base: where the run's model is now."""
    return (write_arm if is_arm(variant) else _write_cut)(run, variant, folder, base)


def _write_cut(run: Run, variant: Values, folder: Path, base: str | None) -> list[Path]:
    """Below `folder`: cut/, zeroed/, plain/, agreement.json. cut/ is smaller and loads
    with `load_cut`. zeroed/ loads anywhere; it is missing for heads set to their means where the
    architecture has no bias to hold these. plain/ is smaller and loads anywhere: where every layer
    keeps as many heads in whole groups and config.json can say so.

    Loads the run's model again (`base` names it where it moved). RequestError when the weights are
    not those of the run; MaskError when masked, cut and zeroed models
    do not agree.
    """
    record = mask_record(run, variant)
    from engine.models.load_language_model import inspect_model, load_language_model
    from engine.surgery.heads.mask import can_be_zeroed, cut, for_record
    from engine.surgery.heads.replay import (
        even_faults,
        is_even,
        load_cut,
        save_cut,
        save_even,
        save_zeroed,
        shape_of,
    )

    name, revision = base or run.request["model"], run.request.get("revision")
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
    if wrong := [name for name, one in found.items() if not one.holds]:
        raise MaskError(
            f"The masked model and the one saved as {', '.join(wrong)} do not agree; nothing was"
            " kept."
        )
    return [*paths, _kept_agreement(folder, found)]


def _agreement(run: Run, lm: LanguageModel, mask: HeadMask, others: Values) -> dict[str, Agreement]:
    """Masked against each way to run it; logits and greedy texts of a few of the run's own
    prompts."""
    from engine.surgery.agreement import agree

    prompts = run.table("prompts").sort_values("prompt_id")["text"].head(PROBES).tolist()
    return {name: agree(lm, mask, prompts, other) for name, other in others.items()}


def _kept_agreement(folder: Path, found: dict[str, Agreement]) -> Path:
    """How far what was saved agrees."""
    path, said = folder / "agreement.json", {name: asdict(one) for name, one in found.items()}
    path.write_text(json.dumps(said, indent=2) + "\n", encoding="utf-8")
    return path


# Arms (what was measured in the dense model's place), made or loaded again from a finished run.


def arm_again(run: Run, lm: LanguageModel, arm: str) -> LanguageModel:
    """The arm of a run beside its dense model. RequestError where it would not be the same one
    today."""
    return _arm_of_plan(prompt_plan_of(run), lm, arm)


def _arm_of_plan(plan: PromptPlan, lm: LanguageModel, arm: str) -> LanguageModel:
    settings = plan.request.settings()
    nobody: Any = None  # no text is judged
    context = PromptContext(
        lm, nobody, plan.prompts, plan.corpus, settings, plan=plan, arms=arms_of(plan)
    )
    return context.standing(arm)


def write_arm(run: Run, variant: Values, folder: Path, base: str | None) -> list[Path]:
    """Below `folder`: model/ (weights as plain numbers, config and tokenizer; `from_pretrained`
    loads it anywhere), agreement.json. base: where the run's model is now. RequestError
    for another checkpoint, which is there already, and where weights are not the run's; MaskError
    where the folder does not load as the model that was saved.
    """
    if is_against(variant["method"]):
        what = f"{variant['variant']!r} is a checkpoint that was brought: it is there already."
        raise refusal("variant", what, "Copy its folder, or choose another variant.")
    from transformers import AutoModelForCausalLM

    from engine.models.load_language_model import load_language_model

    plan = planned(run, model=base or run.request["model"], against=())
    if plan.model.weight_hash != run.model["weight_hash"]:
        what = f"{plan.model.name} has other weights than the audit was made with."
        raise refusal("model", what, "Name the model of the audit.")
    lm = load_language_model(plan.request.model, device="cpu", revision=plan.request.revision)
    arm = _arm_of_plan(plan, lm, arm_of(variant))
    folder.mkdir(parents=True, exist_ok=True)
    saved = folder / "model"
    arm.model.save_pretrained(saved, safe_serialization=True)
    arm.tokenizer.save_pretrained(saved)
    plain = AutoModelForCausalLM.from_pretrained(saved, local_files_only=True, dtype=arm.dtype)
    reloaded = {"reloaded": replace(arm, model=plain.eval())}
    found = _agreement(run, arm, HeadMask(arm.n_layers, arm.n_heads), reloaded)
    if not found["reloaded"].holds:
        what = f"logits differ by {found['reloaded'].max_logit_difference:.1e}"
        raise MaskError(f"{saved} does not load as the model that was saved: {what}.")
    return [saved, _kept_agreement(folder, found)]


# mask.json of a variant that cuts heads: which, of which model, chosen how.


def mask_record(run: Run, variant: Values) -> MaskRecord:
    """The record of one row of the variants table."""
    model, request = run.model, run.request
    mask = HeadMask.from_units(model["n_layers"], model["n_heads"], lookup.cut_units(variant))
    gamma = float(variant["gamma"])
    settings = {
        "variant": variant["variant"],
        "target_axis": variant["target_axis"] or None,
        "gamma": gamma if math.isfinite(gamma) else None,
        "selection_seed": int(variant["seed"]) if variant["seed"] >= 0 else None,
        "estimator": request["estimator"],
        "perplexity_estimator": request["perplexity_estimator"],
        "reading": request.get("reading"),
        "ablation": request.get("ablation", "zero"),
        "seeds": request["seeds"],
        "first_seed": request.get("first_seed", request.get("seed")),
        "judge": run.meta["judge"]["name"],
        "prompts": run.meta["prompts"]["digest"],
    }
    if lookup.is_by_noise(run, variant):
        settings["warning"] = RANKED_BY_NOISE
    return run_record(run, variant, mask, settings, _means(run, mask))


def _means(run: Run, mask: HeadMask) -> tuple[tuple[float, ...], ...]:
    """What the cut heads hand over in a run with mean ablation, else an empty tuple."""
    if "head_means" not in run.meta["tables"]:
        return ()
    table = run.table("head_means").set_index("unit")
    rows = table.loc[[layer * mask.n_heads + head for layer, head in mask.cut]].to_numpy()
    return tuple(tuple(map(float, row)) for row in rows)
