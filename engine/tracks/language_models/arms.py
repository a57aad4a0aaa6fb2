"""What may stand in the dense model's place: the model compressed by a method at a level, or
another checkpoint.

Such an arm is a variant like any cut of heads: same prompts, same noise, same measurements, kept
under what it is made of. Its numbers belong to its id, a method with a level.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from engine.core.types import POOLED
from engine.tracks.language_models import context as contexts
from engine.tracks.language_models.compressions.base import Compression, compression
from engine.tracks.language_models.context import PromptContext, Shard
from engine.tracks.language_models.perplexity import LONGEST
from engine.tracks.language_models.request_checks import methods_of, saved_by
from engine.tracks.language_models.variants import Variant
from engine.tracks.language_models.words import arm_name

if TYPE_CHECKING:
    from engine.models.load_language_model import LanguageModel
    from engine.tracks.language_models.request import AuditRequest, PromptPlan


@dataclass(frozen=True)
class Made:
    """The dense model compressed: by which method, how much, and with which seed where chance
    decides."""

    method: Compression
    level: float
    seed: int = POOLED

    @property
    def said(self) -> str:
        return f"{self.method.name} at {self.level:g}"

    def key(self, context: PromptContext) -> Any:
        text = context.kind("windows").parts(context, Shard("windows", split="validation"))
        return [
            "compressed",
            self.method.name,
            self.method.version,
            self.level,
            self.seed,
            text if self.method.reads_text else None,
        ]

    def stand(self, context: PromptContext) -> LanguageModel:
        from engine.tracks.language_models.arms import calibration_of

        text = calibration_of(context) if self.method.reads_text else []
        return self.method.applied(context.lm, self.level, text, self.seed)

    def bytes(self, lm: LanguageModel) -> tuple[int, int]:
        return self.method.bytes(lm)

    def reached(self, lm: LanguageModel) -> float:
        return self.method.reached(lm, self.level)


@dataclass(frozen=True)
class Other:
    """Another checkpoint with the model's tokenizer."""

    method: str
    info: Any  # engine.models.checkpoint.ModelInfo

    @property
    def said(self) -> str:
        return arm_name(self.method)

    def key(self, context: PromptContext) -> Any:
        from engine.core.files import sha256_of

        return ["checkpoint", self.info.weight_hash, sha256_of(self.info.folder / "config.json")]

    def stand(self, context: PromptContext) -> LanguageModel:
        from engine.models.load_language_model import load_language_model

        dtype, device = str(context.lm.dtype).removeprefix("torch."), str(context.lm.device)
        lm = load_language_model(self.info.folder, device=device, dtype=dtype, as_arm=True)
        return replace(
            lm, name=self.info.name, tokenizer=context.lm.tokenizer, chat=context.lm.chat
        )  # the same, as was checked

    def bytes(self, lm: LanguageModel) -> tuple[int, int]:
        from engine.models.config_file import quantisation_of
        from engine.models.gguf_file import record_of
        from engine.tracks.language_models.measurements.cost import bytes_of

        packed = quantisation_of(self.info.folder) or record_of(self.info.folder)
        stored = self.info.n_bytes if packed else bytes_of(lm)
        return stored, stored

    def reached(self, lm: LanguageModel) -> float:
        """NaN: its level is what it saves."""
        return math.nan


def arms_of(plan: PromptPlan) -> Mapping[str, contexts.Arm]:
    """Every arm of an audit, by its id."""
    return {variant.arm: arm for variant, arm in _named(plan.request, plan)}


def arm_variants(plan: PromptPlan, lm: LanguageModel | None = None) -> list[Variant]:
    """Every arm of an audit as a variant. With the model each has the share that it reaches on it,
    and a level that changes nothing of it has no variant."""
    named = _named(plan.request, plan)
    if lm is None:
        return [variant for variant, _ in named]
    found = [replace(variant, reached=arm.reached(lm)) for variant, arm in named]
    return [
        one
        for one, (_, arm) in zip(found, named, strict=True)
        if isinstance(arm, Other) or one.reached > 0
    ]


def unreached(plan: PromptPlan, lm: LanguageModel) -> list[str]:
    """A sentence per level of a method that is too low to change this model."""
    return [
        f"{arm.said} changes no number of {lm.name}: it was left out."
        for _, arm in _named(plan.request, plan)
        if isinstance(arm, Made) and not arm.reached(lm)
    ]


def _named(request: AuditRequest, plan: PromptPlan) -> list[tuple[Variant, contexts.Arm]]:
    found: list[tuple[Variant, contexts.Arm]] = []
    for name in request.compressions:
        found += [
            (_variant(one.method.name, one.level, one.seed), one)
            for one in _levels(request, plan, name)
        ]
    for name, level in plan.more_arms:
        found += [
            (_variant(name, level, seed), Made(compression(name), level, seed))
            for seed in _seeds(request, name)
        ]
    for method, info in zip(methods_of(plan.against), plan.against, strict=True):
        found.append((_variant(method, saved_by(info, plan.model), POOLED), Other(method, info)))
    return found


def _levels(request: AuditRequest, plan: PromptPlan, name: str) -> Sequence[Made]:
    method = compression(name)
    asked = sorted({value for value in request.sparsities if value > 0})
    levels = dict.fromkeys(method.levels(plan.model, asked, 8 * plan.model.width))
    return [Made(method, level, seed) for level in levels for seed in _seeds(request, name)]


def _seeds(request: AuditRequest, name: str) -> Sequence[int]:
    """Seeds of a compression: its own, where it draws."""
    return request.seed_list if compression(name).uses_seed else (POOLED,)


def variants_of_arm(request: AuditRequest, name: str, level: float) -> list[Variant]:
    """A compression at a level as variants, one per seed where it draws."""
    return [_variant(name, level, seed) for seed in _seeds(request, name)]


def _variant(method: str, level: float, seed: int) -> Variant:
    name = f"{method}-s{level:.3f}" + ("" if seed == POOLED else f"-r{seed}")
    return Variant(name, method, "", math.nan, level, seed, (), arm=name)


# The text that compressions look at: the first windows of the text for validation, which nothing
# is reported on.


WINDOWS = 128
"""At most so many, as in the papers."""
SHORTEST = 8


def calibration_of(context: PromptContext) -> list[list[int]]:
    """Windows of token ids, all of one length: the model's, or the whole text where that is
    shorter."""
    tokens, begin = context.tokens["validation"], context.lm.begin
    length = min(LONGEST, context.lm.n_positions - len(begin), len(tokens))
    if length < SHORTEST:
        return []
    starts = range(0, len(tokens) - length + 1, length)
    return [[*begin, *tokens[start : start + length]] for start in starts][:WINDOWS]
