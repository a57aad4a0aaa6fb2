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


@dataclass(frozen=True)
class Judged:
    """difference: the largest of a logit, in the models' own numbers; tolerance: what of it is
    rounding. exact: the largest in float64, None where that could not be computed."""

    difference: float
    tolerance: float
    exact: float | None
    holds: bool


def judged(
    own: Twice,
    dtype: torch.dtype,
    in_float64: Callable[[], Twice],
    batched_otherwise: Callable[[], float],
    exact: float = EXACT,
) -> Judged:
    """Whether two models agree.

    own: their logits in their own numbers, of `dtype`. in_float64: the same computed by `doubled`
    models. Where there is no room, or a model cannot run so, batched_otherwise decides: the largest
    difference of a logit of one model between batches. exact: what may differ in float64, as a
    share of the largest logit.
    """
    difference, scale = _apart(*own), max(1.0, float(own[0].abs().max()))
    tolerance = RELATIVE[dtype] * scale
    if dtype == torch.float64:
        return Judged(difference, tolerance, difference, difference <= tolerance)
    true = _if_finite(in_float64)
    if true is None:
        if not difference <= tolerance:
            tolerance = max(tolerance, BATCHINGS * batched_otherwise())
        return Judged(difference, tolerance, None, difference <= tolerance)
    tolerance = max(tolerance, ROUNDINGS * _apart(own[0], true[0]))
    apart = _apart(*true)
    return Judged(difference, tolerance, apart, difference <= tolerance and apart <= exact * scale)


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


@dataclass(frozen=True)
class Agreement:
    """Logits over all real tokens of the prompts, and greedy continuations made with the key/value
    cache.

    greedy_equal: every continuation is the same, token by token. near_ties: continuations that part
    where the two tokens' logits lie within twice the tolerance; these are no disagreement, and
    `holds` lets them pass. Of a text classifier: the classes' logits, and the class that every text
    gets in place of a continuation.
    exact: the largest difference of a logit where both are computed in float64, None where they
    cannot.
    """

    max_logit_difference: float
    greedy_equal: bool
    tolerance: float
    holds: bool
    near_ties: int = 0
    prompts: int = 0
    exact: float | None = None


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
    new_tokens, other = min(new_tokens, lm.n_positions - 1), other or cut_out(lm, mask)
    batch = tokens_of(lm, prompts, lm.n_positions - new_tokens)
    one, two = (
        _run(lm, batch, new_tokens, masked(lm, mask)),
        _run(other, batch, new_tokens, nullcontext()),
    )
    found = _judged(
        lm, mask, other, batch, (one.logits, two.logits), batch["attention_mask"].bool().cpu()
    )
    return _told(found, one, two)


def agree_on_texts(
    clf: TextClassifier,
    mask: HeadMask,
    texts: Sequence[str],
    texts_b: Sequence[str] | None = None,
    other: TextClassifier | None = None,
) -> Agreement:
    """As `agree`, of text classifiers: masked `clf` against `other`, by default `clf` cut here. One
    batch."""
    batch, other = clf.encode(texts, texts_b), other or cut_out(clf, mask)
    one, two = (
        _class(_logits(clf, batch, masked(clf, mask))),
        _class(_logits(other, batch, nullcontext())),
    )
    found = _judged(
        clf, mask, other, batch, (one.logits, two.logits), torch.ones(len(texts), dtype=torch.bool)
    )
    return _told(found, one, two)


def tokens_of(lm: LanguageModel, prompts: Sequence[str], longest: int) -> dict[str, torch.Tensor]:
    """input_ids, attention_mask and position_ids, [prompts, tokens] each, padded left, on the
    model's device."""
    found = lm.tokenizer(
        list(prompts), return_tensors="pt", padding=True, truncation=True, max_length=longest
    )
    attention = found["attention_mask"]
    positions = (attention.cumsum(-1) - 1).clamp(min=0)
    batch = {
        "input_ids": found["input_ids"],
        "attention_mask": attention,
        "position_ids": positions,
    }
    return {name: tensor.to(lm.device) for name, tensor in batch.items()}


@dataclass(frozen=True)
class _Answer:
    """What one of the two models answered, on the CPU."""

    logits: torch.Tensor  # [prompts, tokens, vocabulary], float64 on the CPU
    chosen: torch.Tensor  # [prompts, new tokens]
    steps: torch.Tensor  # [prompts, new tokens, vocabulary]


def _run(
    lm: LanguageModel, batch: dict, new_tokens: int, setting: AbstractContextManager
) -> _Answer:
    """Logits and greedy continuations of a batch as from `tokens_of`, computed within `setting`
    (masked or not)."""
    batch = {name: tensor.to(lm.device) for name, tensor in batch.items()}
    with torch.no_grad(), setting:
        logits = _logits(lm, batch, nullcontext())
        chosen, steps = greedy(lm, batch, new_tokens)
    return _Answer(logits, chosen.cpu(), steps.double().cpu())


def _logits(lm: TransformerModel, batch: dict, setting: AbstractContextManager) -> torch.Tensor:
    """[prompts, tokens, vocabulary] or [texts, classes], float64 on the CPU, computed within
    `setting`."""
    batch = {name: tensor.to(lm.device) for name, tensor in batch.items()}
    more = {"use_cache": False} if lm.adapter.causal else {}
    with torch.no_grad(), setting:
        return lm.model(**batch, **more).logits.double().cpu()


def greedy(
    lm: LanguageModel, batch: dict[str, torch.Tensor], new_tokens: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The likeliest next token, again and again, with the key/value cache; no stop at the end of a
    text.

    Returns the tokens [prompts, new tokens] and the logits they were chosen from [prompts, new
    tokens, vocabulary].
    """
    inputs, attention, positions = (
        batch["input_ids"],
        batch["attention_mask"],
        batch["position_ids"],
    )
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


def _class(logits: torch.Tensor) -> _Answer:
    """The answer of a text classifier, logits [texts, classes]: a text's class stands for a
    continuation."""
    return _Answer(logits, logits.argmax(-1, keepdim=True), logits.unsqueeze(1))


def _judged(
    lm: TransformerModel,
    mask: HeadMask,
    other: TransformerModel,
    batch: dict,
    own: Twice,
    real: torch.Tensor,
) -> Judged:
    """Masked `lm` against `other`, whose logits of the batch are `own`. real: [prompts, tokens] or
    [texts] bool, True where logits count."""

    def in_float64() -> Twice:
        one = _logits(big := doubled(lm), batch, masked(big, mask))[real]
        del big  # one copy at a time
        return one, _logits(doubled(other), batch, nullcontext())[real]

    def batched_otherwise() -> float:
        """Every row alone, without its padding."""
        apart = 0.0
        for row, logits in enumerate(own[0]):
            counts = batch["attention_mask"][row].bool()
            alone = {name: value[row : row + 1, counts] for name, value in batch.items()}
            again = _logits(lm, alone, masked(lm, mask))[0]
            apart = max(apart, float((again - logits[real[row]].reshape(again.shape)).abs().max()))
        return apart

    # means of silenced heads become a bias in the model's own numbers: rounded, in float64 too
    exact = EXACT if lm.means is None else RELATIVE[lm.dtype]
    return judged((own[0][real], own[1][real]), lm.dtype, in_float64, batched_otherwise, exact)


def _told(found: Judged, one: _Answer, two: _Answer) -> Agreement:
    apart, ties = _compare(one, two, found.tolerance)
    holds = found.holds and apart == ties
    return Agreement(
        found.difference, apart == 0, found.tolerance, holds, ties, len(one.logits), found.exact
    )


def _compare(one: _Answer, two: _Answer, tolerance: float) -> tuple[int, int]:
    """How many continuations differ, and how many of those part at a near tie."""
    apart = ties = 0
    for row in (one.chosen != two.chosen).any(1).nonzero().flatten().tolist():
        step = int((one.chosen[row] != two.chosen[row]).nonzero()[0])
        logits = one.steps[row, step]
        margin = abs(float(logits[one.chosen[row, step]] - logits[two.chosen[row, step]]))
        apart += 1
        ties += margin <= 2 * tolerance
    return apart, ties
