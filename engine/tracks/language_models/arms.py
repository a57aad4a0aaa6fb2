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

from engine.core import words
from engine.core.types import POOLED, Values
from engine.report import phrasing
from engine.tracks.language_models import context as contexts
from engine.tracks.language_models import words as own
from engine.tracks.language_models.compressions import Compression, compression, compressions
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
        text = calibration_of(context) if self.method.reads_text else []
        return self.method.applied(context.lm, self.level, text, self.seed)

    def bytes(self, lm: LanguageModel) -> tuple[int, int]:
        from engine.tracks.language_models.compressions._linear import bytes_by

        return bytes_by(lm, self.method.bits)

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
    return {variant.arm: arm for variant, arm in _named(plan)}


def arm_variants(plan: PromptPlan, lm: LanguageModel | None = None) -> list[Variant]:
    """Every arm of an audit as a variant. With the model each has the share that it reaches on it,
    and a level that changes nothing of it has no variant."""
    named = _named(plan)
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
        for _, arm in _named(plan)
        if isinstance(arm, Made) and not arm.reached(lm)
    ]


def _named(plan: PromptPlan) -> list[tuple[Variant, contexts.Arm]]:
    request, model, bits = plan.request, plan.model, 8 * plan.model.width
    asked = sorted({value for value in request.sparsities if value > 0})
    levels = [
        (name, level)
        for name in request.compressions
        for level in dict.fromkeys(compression(name).levels(model, asked, bits))
    ]
    made = [
        (_variant(name, level, seed), Made(compression(name), level, seed))
        for name, level in (*levels, *plan.more_arms)
        for seed in _seeds(request, name)
    ]
    others = [
        (_variant(method, saved_by(info, model), POOLED), Other(method, info))
        for method, info in zip(methods_of(plan.against), plan.against, strict=True)
    ]
    return [*made, *others]


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


# Arms in words: what stands in the dense model's place, how much of it, and what that saves. No
# torch.


LEVELS = "share of heads cut, weights zero, layers dropped or bytes saved"
"""The title of an axis along which cuts of heads and arms lie."""
WHICH = {"magnitude_weights": "the smallest", "random_weights": "drawn at random"}
"""Which weights become zero, of methods that are called by it."""
SAID = {"weights": "of weights zero", "layers": "of layers dropped", "bytes": "of bytes saved"}
"""What a level is a share of, by what a method saves."""


def arm_of(variant: Values) -> str:
    """The id of what stands in the dense model's place, of a row of the variants; "" for cuts of
    heads. Rows of an addition may lack the column."""
    arm = variant.get("arm")
    return arm if isinstance(arm, str) else ""


def is_arm(variant: Values) -> bool:
    """Whether a row of the variants is no cut of heads but a model of its own."""
    return bool(arm_of(variant))


def _share(variant: Values) -> float:
    """What the level came to on this model; the level where that is not known, as in earlier
    audits."""
    reached = variant.get("realised")
    return float(variant["sparsity"] if reached is None or math.isnan(reached) else reached)


def amount(variant: Values) -> str:
    """How much, e.g. "50 % of weights zero"; and what was asked, where whole weights came to
    something else."""
    asked = phrasing.percent(variant["sparsity"])
    if has_own_levels(variant["method"]) or phrasing.percent(_share(variant)) == asked:
        return _amount(variant)
    return f"{_amount(variant)} (asked: {asked})"


def _amount(variant: Values) -> str:
    share = phrasing.percent(_share(variant))
    if own.is_against(variant["method"]):
        return f"{share} fewer bytes" if variant["sparsity"] > 0 else "no smaller"
    return f"{share} {SAID[_saves(variant)]}"


def label(variant: Values) -> str:
    """E.g. "Wanda, 50 % of weights zero"."""
    name = words.method_name(variant["method"])
    return name if own.is_against(variant["method"]) else f"{name}, {_amount(variant)}"


def does(variant: Values) -> str:
    """What is done to the model, as a sentence's subject."""
    name, share = words.method_name(variant["method"]), phrasing.percent(_share(variant))
    if own.is_against(variant["method"]):
        return f"Putting {name} in the model's place"
    if _saves(variant) == "layers":
        return f"Dropping {share} of the layers"
    if _saves(variant) == "bytes":
        return f"Rounding weights to {name}"
    if variant["method"] in WHICH:
        return f"Setting {share} of the weights, {WHICH[variant['method']]}, to zero"
    return f"Setting {share} of the weights to zero with {name}"


def made(variant: Values) -> str:
    """What the model became, beside "Dense"."""
    name = words.method_name(variant["method"])
    if own.is_against(variant["method"]):
        return name
    known = {"bytes": f"Rounded to {name}", "layers": "Fewer layers"}
    return known.get(_saves(variant), "Weights set to zero")


def of_request(request: Values) -> bool:
    """Whether an audit compares cuts of heads with other ways to make the model smaller."""
    return bool(request.get("against")) or any(
        method in compressions() for method in request.get("methods") or ()
    )


def level_title(method: str) -> str:
    """What the level of an arm's method is a share of; "" for methods that cut heads."""
    if own.is_against(method):
        return "Share of bytes saved"
    return f"Share {SAID[compressions()[method].saves]}" if method in compressions() else ""


def has_own_levels(method: str) -> bool:
    return own.is_against(method) or (
        method in compressions() and compressions()[method].own_levels
    )


def instead(variant: Values) -> str:
    """What there is in place of a picture of heads."""
    if own.is_against(variant["method"]):
        return "No head: this is another checkpoint."
    return f"No head by itself: {amount(variant)}."


def saves(variant: Values, dense: Values, mine: Values) -> str:
    """What it does to the size, as a sentence's beginning."""
    saved = 1 - mine["bytes"] / dense["bytes"]
    if abs(saved) < 5e-4:
        return f"{does(variant)} saves no byte as it is stored to be run"
    return (
        f"{does(variant)} {'saves' if saved > 0 else 'adds'} {phrasing.per_cent(saved)} of the"
        " bytes"
    )


def size_note(variant: Values, mine: Values) -> str:
    """What the numbers of size and time do not say."""
    if own.is_against(variant["method"]) or _saves(variant) == "layers":
        return "Time is measured with the model as it was loaded."
    if _saves(variant) == "bytes":
        return own.ROUNDED
    packed = phrasing.number(mine["packed_bytes"])
    return (
        f"{own.ZEROS} With zeros left out, and a bit per weight to say where, it would take"
        f" {packed} bytes."
    )


def untimed(variant: Values) -> str:
    """Why its time says nothing, as the end of a sentence: it was computed in another format."""
    if own.is_against(variant["method"]) or _saves(variant) == "layers":
        return ""
    if _saves(variant) == "weights":
        return "its time says nothing, for zeros were computed like other numbers"
    name = words.method_name(variant["method"])
    return f"its time says nothing, for {name} was computed in the model's own precision"


def _saves(variant: Values) -> str:
    """What its level is a share of; that of weights for a method that is no longer there."""
    method = compressions().get(variant["method"])
    return method.saves if method else "weights"
