"""The dense model's sampled texts as token ids, for teacher-forced passes."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from engine.core.types import Decoding
from engine.models.decode import prompt_tokens
from engine.tracks.language_models.context import FEW_TEST, PromptContext, Shard


@dataclass(frozen=True)
class Sampled:
    """Token ids of every text (prompt and continuation), the index of its first sampled token, and
    each shard's texts.

    prompt_ids has one array [prompts] of str per shard, places its slice of `rows`.
    """

    rows: list[list[int]]
    first: list[int]
    prompt_ids: list[np.ndarray]
    places: list[slice]


def sampled(context: PromptContext, shards: Sequence[Shard]) -> Sampled:
    """The texts of several (axis, split, seed), one after the other."""
    rows: list[list[int]] = []
    first: list[int] = []
    prompt_ids, places = [], []
    for shard, drawn in zip(
        shards, context.fetch([dense_texts(shard) for shard in shards]), strict=True
    ):
        prompts = context.rows(shard.axis, shard.split)
        heads = prompt_tokens(
            context.lm, prompts["text"].tolist(), context.settings.decoding.max_prompt_tokens
        )
        places.append(slice(len(rows), len(rows) + len(heads)))
        prompt_ids.append(drawn["prompt_id"].to_numpy())
        rows += [[*head, *map(int, ids)] for head, ids in zip(heads, drawn["ids"], strict=True)]
        first += [len(head) for head in heads]
    return Sampled(rows, first, prompt_ids, places)


def dense_texts(shard: Shard) -> Shard:
    return replace(shard, kind="texts", cut=(), arm="")


def drafts_of(shard: Shard) -> Shard:
    """The dense model's texts from which those without a head are found: of all prompts of its
    split."""
    return replace(dense_texts(shard), split="test" if shard.split == FEW_TEST else shard.split)


def off_together(context: PromptContext, shard: Shard) -> Hashable:
    """Texts with single heads of one layer off are drawn together: from one reading of the dense
    model's."""
    return (
        ("layer", shard.cut[0] // context.lm.n_heads)
        if len(shard.cut) == 1
        else (shard.cut, shard.arm)
    )


def text_parts(context: PromptContext, shard: Shard) -> dict[str, Any]:
    """What the dense texts depend on."""
    texts = context.kind("texts")
    return {**texts.parts(context, dense_texts(shard)), "texts_version": texts.version}


def sampled_from(decoding: Decoding) -> Decoding | None:
    """The decoding where it changes probabilities, None for plain sampling."""
    return (
        None
        if decoding.temperature == 1.0 and not decoding.top_k and decoding.top_p == 1.0
        else decoding
    )
