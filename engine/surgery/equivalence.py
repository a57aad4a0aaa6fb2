"""The masked model, the cut one, and the cut one after saving and loading must give the same answers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch

from engine.core.types import HeadMask
from engine.models.load_language_model import LanguageModel
from engine.models.load_text_classifier import TextClassifier
from engine.models.transformer import TransformerModel
from engine.surgery.heads.cut import cut as cut_out
from engine.surgery.heads.mask import masked

NEW_TOKENS = 16
RELATIVE = {torch.float64: 1e-10, torch.float32: 1e-5, torch.float16: 1e-2, torch.bfloat16: 5e-2}
"""Largest difference allowed, as a share of the largest logit (at least 1)."""


@dataclass(frozen=True)
class Agreement:
    """Logits over all real tokens of the prompts, and greedy continuations made with the key/value cache.

    greedy_equal: every continuation is the same, token by token. near_ties: continuations that part where the two
    tokens' logits lie within twice the tolerance; these are no disagreement, and `holds` lets them pass.
    Of a text classifier: the classes' logits, and the class that every text gets in place of a continuation.
    """

    max_logit_difference: float
    greedy_equal: bool
    tolerance: float
    holds: bool
    near_ties: int = 0
    prompts: int = 0


def agree(
    lm: LanguageModel,
    mask: HeadMask,
    prompts: Sequence[str],
    other: LanguageModel | None = None,
    new_tokens: int = NEW_TOKENS,
) -> Agreement:
    """Masked `lm` against `other`: a cut or reloaded model; by default `lm` is cut here. Prompts go as one batch.

    Texts are cut to leave room for `new_tokens` in the model's positions.
    """
    new_tokens = min(new_tokens, lm.n_positions - 1)
    batch = tokens_of(lm, prompts, lm.n_positions - new_tokens)
    one = _run(lm, batch, new_tokens, masked(lm, mask))
    two = _run(other or cut_out(lm, mask), batch, new_tokens, nullcontext())
    real = batch["attention_mask"].bool().cpu()
    return _judged(lm, one, two, real)


def agree_on_texts(
    clf: TextClassifier,
    mask: HeadMask,
    texts: Sequence[str],
    texts_b: Sequence[str] | None = None,
    other: TextClassifier | None = None,
) -> Agreement:
    """As `agree`, of text classifiers: masked `clf` against `other`, by default `clf` cut here. One batch."""
    batch = clf.encode(texts, texts_b)
    one = _classes(clf, batch, masked(clf, mask))
    two = _classes(other or cut_out(clf, mask), batch, nullcontext())
    return _judged(clf, one, two, torch.ones(len(texts), dtype=torch.bool))


def tokens_of(lm: LanguageModel, prompts: Sequence[str], longest: int) -> dict[str, torch.Tensor]:
    """input_ids, attention_mask and position_ids, [prompts, tokens] each, padded left, on the model's device."""
    found = lm.tokenizer(list(prompts), return_tensors="pt", padding=True, truncation=True, max_length=longest)
    attention = found["attention_mask"]
    positions = (attention.cumsum(-1) - 1).clamp(min=0)
    batch = {"input_ids": found["input_ids"], "attention_mask": attention, "position_ids": positions}
    return {name: tensor.to(lm.device) for name, tensor in batch.items()}


@dataclass(frozen=True)
class _Answer:
    """What one of the two models answered, on the CPU."""

    logits: torch.Tensor  # [prompts, tokens, vocabulary], float64 on the CPU
    chosen: torch.Tensor  # [prompts, new tokens]
    steps: torch.Tensor  # [prompts, new tokens, vocabulary]


def _run(lm: LanguageModel, batch: dict, new_tokens: int, setting: AbstractContextManager) -> _Answer:
    """Logits and greedy continuations of a batch as from `tokens_of`, computed within `setting` (masked or not)."""
    batch = {name: tensor.to(lm.device) for name, tensor in batch.items()}
    with torch.no_grad(), setting:
        logits = lm.model(**batch, use_cache=False).logits
        chosen, steps = greedy(lm, batch, new_tokens)
    return _Answer(logits.double().cpu(), chosen.cpu(), steps.double().cpu())


def greedy(lm: LanguageModel, batch: dict[str, torch.Tensor], new_tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The likeliest next token, again and again, with the key/value cache; no stop at the end of a text.

    Returns the tokens [prompts, new tokens] and the logits they were chosen from [prompts, new tokens, vocabulary].
    """
    inputs, attention, positions = batch["input_ids"], batch["attention_mask"], batch["position_ids"]
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


def _classes(clf: TextClassifier, batch: dict, setting: AbstractContextManager) -> _Answer:
    """The answer of a text classifier to an encoded batch: logits [texts, classes] float64.

    The class of a text stands for a continuation of one token.
    """
    batch = {name: tensor.to(clf.device) for name, tensor in batch.items()}
    with torch.no_grad(), setting:
        logits = clf.model(**batch).logits.double().cpu()
    return _Answer(logits, logits.argmax(-1, keepdim=True), logits.unsqueeze(1))


def _judged(lm: TransformerModel, one: _Answer, two: _Answer, real: torch.Tensor) -> Agreement:
    """Whether two answers agree. real: [prompts, tokens] or [texts] bool, True where logits count."""
    difference = float((one.logits - two.logits)[real].abs().max())
    tolerance = RELATIVE[lm.dtype] * max(1.0, float(one.logits[real].abs().max()))
    apart, ties = _compare(one, two, tolerance)
    holds = difference <= tolerance and apart == ties
    return Agreement(difference, apart == 0, tolerance, holds, ties, len(real))


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
