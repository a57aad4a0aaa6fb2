"""What stood in the dense model's place, made or loaded again from a finished run, to be asked or
taken away."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.audit.tracks import request_from
from engine.core.errors import Fault, MaskError, RequestError
from engine.core.types import HeadMask
from engine.report.model_card import model_card
from engine.store.runs import Run
from engine.tracks.language_models.arm_words import arm_of, is_arm
from engine.tracks.language_models.arms import arms_of
from engine.tracks.language_models.context import PromptContext
from engine.tracks.language_models.request import PromptPlan, prompt_plan_of, validate
from engine.tracks.language_models.words import is_against

if TYPE_CHECKING:
    from engine.models.load_language_model import LanguageModel

PROMPTS = 8


def standing_again(run: Run, lm: LanguageModel, arm: str) -> LanguageModel:
    """The arm of a run beside its dense model. RequestError where it would not be the same one
    today."""
    return _stand(prompt_plan_of(run), lm, arm)


def _stand(plan: PromptPlan, lm: LanguageModel, arm: str) -> LanguageModel:
    settings = plan.request.settings()
    nobody: Any = None  # no text is judged
    context = PromptContext(
        lm, nobody, plan.prompts, plan.corpus, settings, plan=plan, arms=arms_of(plan)
    )
    return context.standing(arm)


def write_arm(
    run: Run, variant: dict[str, Any], folder: Path, base: str | None = None
) -> list[Path]:
    """Below `folder`: model/ (weights as plain numbers, config and tokenizer; `from_pretrained`
    loads it anywhere), agreement.json, README.md. base: where the run's model is now. RequestError
    for another checkpoint, which is there already, and where weights are not the run's; MaskError
    where the folder does not load as the model that was saved.
    """
    assert is_arm(variant)
    if is_against(variant["method"]):
        what = f"{variant['variant']!r} is a checkpoint that was brought: it is there already."
        raise RequestError(Fault("variant", what, "Copy its folder, or choose another variant."))
    from engine.models.load_language_model import load_language_model

    request = request_from(run.meta["request"])
    plan = validate(replace(request, model=base or request.model, against=()))
    if plan.model.weight_hash != run.meta["model"]["weight_hash"]:
        what = f"{plan.model.name} has other weights than the audit was made with."
        raise RequestError(Fault("model", what, "Name the model of the audit."))
    lm = load_language_model(plan.request.model, device="cpu", revision=plan.request.revision)
    arm = _stand(plan, lm, arm_of(variant))
    folder.mkdir(parents=True, exist_ok=True)
    arm.model.save_pretrained(folder / "model", safe_serialization=True)
    arm.tokenizer.save_pretrained(folder / "model")
    found = _agreement(run, arm, folder / "model")
    (folder / "agreement.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    (folder / "README.md").write_text(model_card(run, variant), encoding="utf-8")
    return [folder / "model", folder / "agreement.json", folder / "README.md"]


def _agreement(run: Run, arm: LanguageModel, folder: Path) -> dict[str, Any]:
    """The saved folder, loaded by plain transformers, beside the model in memory."""
    from transformers import AutoModelForCausalLM

    from engine.surgery.equivalence import agree

    loaded = AutoModelForCausalLM.from_pretrained(
        folder, local_files_only=True, dtype=arm.dtype
    ).eval()
    prompts = run.table("prompts").sort_values("prompt_id")["text"].head(PROMPTS).tolist()
    found = agree(arm, HeadMask(arm.n_layers, arm.n_heads), prompts, replace(arm, model=loaded))
    if not found.holds:
        what = f"logits differ by {found.max_logit_difference:.1e}"
        raise MaskError(f"{folder} does not load as the model that was saved: {what}.")
    return {"reloaded": asdict(found)}
