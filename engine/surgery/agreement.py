"""Whether two models that must compute the same do: masked, cut, and cut, saved and loaded again.

They are judged by the model's own rounding and not by a fixed number. Two right ways to compute one
model differ in their last digits, by how much hangs on the model. SmolLM2 cut at random differs by
2e-5 of its largest logit in float32; its rounding alone is 1e-4. So both are computed in float64
too, where what is equal differs by nothing and one weight that is 1 % off shows.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from engine.core.types import HeadMask, Values
from engine.models.load_image_classifier import Classifier
from engine.models.load_language_model import LanguageModel
from engine.models.load_text_classifier import TextClassifier
from engine.models.packing import left_pad
from engine.models.runtime import on_device
from engine.models.transformer import TransformerModel
from engine.surgery.heads.mask import cut as cut_out
from engine.surgery.heads.mask import masked

RELATIVE = {torch.float64: 1e-10, torch.float32: 1e-5, torch.float16: 1e-2, torch.bfloat16: 5e-2}
"""A difference that is never too large, as a share of the largest logit (at least 1)."""
EXACT = 1e-8
"""As RELATIVE, in float64. Cuts of SmolLM2 differ by 6e-15; of its weights, one that is 1 % off
moves logits by 3e-7."""
ROUNDINGS = 4
"""As many times the model's own rounding may two right ways to compute it differ."""
BATCHINGS = 32
"""The same in what other batches change, a part of rounding only: cuts of SmolLM2 differed by 17
times it."""

AnyModel = TypeVar("AnyModel", TransformerModel, Classifier)
Twice = tuple[Tensor, Tensor]
"""Logits of two models that must be the same, [n, classes] float64 each."""


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Whether two models agree.

    max_logit_difference: the largest of a logit, in the models' own numbers; tolerance: what of it
    is rounding. exact: the largest in float64, None where that could not be computed.

    Logits of language models are those of all real tokens of the prompts, and greedy continuations
    are made with the key/value cache. greedy_equal: every continuation is the same, token by token.
    near_ties: continuations that part where the two tokens' logits lie within twice the tolerance;
    these are no disagreement, and `holds` lets them pass. Of a text classifier the class that every
    text gets stands for a continuation.
    """

    max_logit_difference: float
    greedy_equal: bool = True
    tolerance: float
    holds: bool
    near_ties: int = 0
    prompts: int = 0
    exact: float | None = None


def judged(
    own: Twice,
    dtype: torch.dtype,
    in_float64: Callable[[], Twice],
    batched_otherwise: Callable[[], float],
    exact: float = EXACT,
) -> Agreement:
    """Whether two models agree.

    own: their logits in their own numbers, of `dtype`. in_float64: the same computed by `doubled`
    models. Where there is no room, or a model cannot run so, batched_otherwise decides: the largest
    difference of a logit of one model between batches. exact: what may differ in float64, as a
    share of the largest logit.
    """
    apart, scale = _apart(*own), max(1.0, float(own[0].abs().max()))
    tolerance = RELATIVE[dtype] * scale
    true: Twice | None = own
    if dtype != torch.float64:
        true = _if_finite(in_float64)
        if true is not None:
            tolerance = max(tolerance, ROUNDINGS * _apart(own[0], true[0]))
        elif not apart <= tolerance:
            tolerance = max(tolerance, BATCHINGS * batched_otherwise())
    found = None if true is None else _apart(*true)
    holds = apart <= tolerance and (true is own or found is None or found <= exact * scale)
    return Agreement(max_logit_difference=apart, tolerance=tolerance, holds=holds, exact=found)


def doubled(one: AnyModel) -> AnyModel:
    """A copy that computes in float64, on the CPU where the device cannot. RuntimeError where there
    is no room."""
    place = torch.device("cpu") if one.device.type == "mps" else one.device
    if 8 * sum(value.numel() for value in one.model.state_dict().values()) > on_device(place):
        raise RuntimeError("no room for a copy in float64")
    two = replace(one, model=copy.deepcopy(one.model).to(place).double(), device=place)
    return replace(two, dtype=torch.float64) if isinstance(two, TransformerModel) else two


class _Float64Stays(TorchFunctionMode):
    """Within it, no number of float64 is rounded to float32. Norms of many models do; two that
    differ in their last bit can then round apart."""

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Values | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if args and isinstance(args[0], Tensor) and args[0].dtype == torch.float64:
            args = [torch.float64 if one is torch.float32 else one for one in args]
            kwargs = {
                name: torch.float64 if one is torch.float32 else one for name, one in kwargs.items()
            }
            func = Tensor.double if func is Tensor.float else func
        return func(*args, **kwargs)


def _if_finite(in_float64: Callable[[], Twice]) -> Twice | None:
    """What was computed in float64. None where there is no room, or where layers know their own
    number format only: they fail, or make no numbers (BLOOM's and MPT's masks)."""
    try:
        with _Float64Stays():
            found = in_float64()
    except (RuntimeError, TypeError):
        return None
    return found if all(bool(torch.isfinite(one).all()) for one in found) else None


def _apart(one: Tensor, two: Tensor) -> float:
    return float((one - two).abs().max())


NEW_TOKENS = 16


def agree(
    lm: LanguageModel,
    mask: HeadMask,
    prompts: Sequence[str],
    other: LanguageModel | None = None,
    new_tokens: int = NEW_TOKENS,
) -> Agreement:
    """Masked `lm` against `other`: a cut or reloaded model; by default `lm` is cut here. Prompts go
    as one batch.

    Texts are cut to leave room for `new_tokens` in the model's positions.
    """
    new_tokens = min(new_tokens, lm.n_positions - 1)
    batch = tokens_of(lm, prompts, lm.n_positions - new_tokens)
    real = batch["attention_mask"].bool().cpu()

    def answer(one: LanguageModel, setting: AbstractContextManager) -> _Answer:
        with torch.no_grad(), setting:
            logits = _logits(one, batch)
            chosen, steps = greedy(one, batch, new_tokens)
        return _Answer(logits, chosen.cpu(), steps.double().cpu())

    return _compared(lm, mask, other or cut_out(lm, mask), batch, real, answer)


def agree_on_texts(
    clf: TextClassifier,
    mask: HeadMask,
    texts: Sequence[str],
    texts_b: Sequence[str] | None = None,
    other: TextClassifier | None = None,
) -> Agreement:
    """As `agree`, of text classifiers: masked `clf` against `other`, by default `clf` cut here. One
    batch."""
    batch = clf.encode(texts, texts_b)

    def answer(one: TextClassifier, setting: AbstractContextManager) -> _Answer:
        with setting:
            logits = _logits(one, batch)
        return _Answer(logits, logits.argmax(-1, keepdim=True), logits.unsqueeze(1))

    real = torch.ones(len(texts), dtype=torch.bool)
    return _compared(clf, mask, other or cut_out(clf, mask), batch, real, answer)


def tokens_of(lm: LanguageModel, prompts: Sequence[str], longest: int) -> dict[str, torch.Tensor]:
    """input_ids, attention_mask and position_ids, [prompts, tokens] each, padded left, on the
    model's device."""
    rows = lm.tokenizer(list(prompts), truncation=True, max_length=longest)["input_ids"]
    batch = left_pad(rows, lm.device)
    return {"input_ids": batch.ids, "attention_mask": batch.real, "position_ids": batch.positions}


@dataclass(frozen=True)
class _Answer:
    """What one of the two models answered, on the CPU."""

    logits: torch.Tensor  # [prompts, tokens, vocabulary], float64 on the CPU
    chosen: torch.Tensor  # [prompts, new tokens]
    steps: torch.Tensor  # [prompts, new tokens, vocabulary]


@torch.no_grad()
def _logits(lm: TransformerModel, batch: dict) -> torch.Tensor:
    """[prompts, tokens, vocabulary] or [texts, classes], float64 on the CPU."""
    batch = {name: tensor.to(lm.device) for name, tensor in batch.items()}
    more = {"use_cache": False} if lm.adapter.causal else {}
    return lm.model(**batch, **more).logits.double().cpu()


def greedy(
    lm: LanguageModel, batch: dict[str, torch.Tensor], new_tokens: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The likeliest next token, again and again, with the key/value cache; no stop at the end of a
    text.

    Returns the tokens [prompts, new tokens] and the logits they were chosen from [prompts, new
    tokens, vocabulary].
    """
    names = ("input_ids", "attention_mask", "position_ids")
    inputs, attention, positions = (batch[name].to(lm.device) for name in names)
    cache, chosen, steps = None, [], []
    for _ in range(new_tokens):
        out = lm.model(
            input_ids=inputs,
            attention_mask=attention,
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
        )
        cache, last = out.past_key_values, out.logits[:, -1]
        inputs = last.argmax(-1, keepdim=True)
        attention = torch.cat([attention, torch.ones_like(attention[:, :1])], dim=1)
        positions = positions[:, -1:] + 1
        chosen.append(inputs)
        steps.append(last)
    return torch.cat(chosen, dim=1), torch.stack(steps, dim=1)


def _compared(
    lm: TransformerModel,
    mask: HeadMask,
    other: TransformerModel,
    batch: dict,
    real: torch.Tensor,
    answer: Callable[[Any, AbstractContextManager], _Answer],
) -> Agreement:
    """Masked `lm` against `other` on a batch. real: [prompts, tokens] or [texts] bool, True where
    logits count."""
    one, two = answer(lm, masked(lm, mask)), answer(other, nullcontext())

    def in_float64() -> Twice:
        big = doubled(lm)
        with masked(big, mask):
            first = _logits(big, batch)[real]
        del big  # one copy at a time
        return first, _logits(doubled(other), batch)[real]

    def batched_otherwise() -> float:
        """Every row alone, without its padding."""
        apart = 0.0
        with masked(lm, mask):
            for row, logits in enumerate(one.logits):
                counts = batch["attention_mask"][row].bool()
                alone = {name: value[row : row + 1, counts] for name, value in batch.items()}
                again = _logits(lm, alone)[0]
                apart = max(apart, _apart(again, logits[real[row]].reshape(again.shape)))
        return apart

    # means of silenced heads become a bias in the model's own numbers: rounded, in float64 too
    exact = EXACT if lm.means is None else RELATIVE[lm.dtype]
    own = one.logits[real], two.logits[real]
    found = judged(own, lm.dtype, in_float64, batched_otherwise, exact)
    parted = (one.chosen != two.chosen).any(1).nonzero().flatten().tolist()
    ties = sum(_gap(one, two, row) <= 2 * found.tolerance for row in parted)
    return replace(
        found,
        greedy_equal=not parted,
        holds=found.holds and len(parted) == ties,
        near_ties=ties,
        prompts=len(one.logits),
    )


def _gap(one: _Answer, two: _Answer, row: int) -> float:
    """By how much the logits of the two tokens differ where two continuations part."""
    step = int((one.chosen[row] != two.chosen[row]).nonzero()[0])
    logits = one.steps[row, step]
    return abs(float(logits[one.chosen[row, step]] - logits[two.chosen[row, step]]))
