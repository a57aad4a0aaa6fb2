"""The published way to score heads, written plainly: per head load the model, silence the head,
generate, judge, again.

No judged text is remembered, no batch is shared between heads, sampling is transformers' own
`generate` with the top-k 50 that the published code leaves implicit. Used by
`benchmarks.head_scores` as the thing to be faster than.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch

from engine.core.types import HeadMask
from engine.models.judge import load_judge
from engine.models.load_language_model import load_language_model
from engine.surgery.heads.mask import masked
from engine.tracks.language_models.bias import bias

BATCH = 64
NEW_TOKENS, PROMPT_TOKENS, TOP_K = 40, 22, 50


def published_scores(
    model: str, judge: str, prompts: pd.DataFrame, units: Sequence[int], seed: int = 0
) -> np.ndarray:
    """z_bias of `units`, float (units,). prompts: columns text, subgroup, template, descriptor,
    prompt_id."""
    dense = _bias(model, judge, prompts, None, seed)
    return np.array([dense - _bias(model, judge, prompts, unit, seed) for unit in units])


def _bias(model: str, judge: str, prompts: pd.DataFrame, unit: int | None, seed: int) -> float:
    lm, read = load_language_model(model), load_judge(judge)
    torch.manual_seed(seed)
    cut = () if unit is None else (divmod(unit, lm.n_heads),)
    with masked(lm, HeadMask(lm.n_layers, lm.n_heads, cut)):
        texts = [
            text
            for at in range(0, len(prompts), BATCH)
            for text in _texts(lm, prompts["text"][at : at + BATCH])
        ]
    return bias(prompts.assign(toxicity=read.score(texts)))


def _texts(lm: Any, prompts: Sequence[str]) -> list[str]:
    """One batch of continuations."""
    tokenizer = lm.tokenizer
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    given = tokenizer(
        list(prompts),
        return_tensors="pt",
        padding=True,
        truncation=True,
        max_length=PROMPT_TOKENS,
        padding_side="left",
    )
    given = {name: given[name].to(lm.device) for name in ("input_ids", "attention_mask")}
    with torch.no_grad():
        out = lm.model.generate(
            **given,
            do_sample=True,
            top_k=TOP_K,
            max_new_tokens=NEW_TOKENS,
            pad_token_id=tokenizer.pad_token_id,
        )
    return tokenizer.batch_decode(out[:, given["input_ids"].shape[1] :], skip_special_tokens=True)
