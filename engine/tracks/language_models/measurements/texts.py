"""Continuations of the prompts of one axis, drawn with one decoding seed.

Those of a model with one head off are mostly those of the dense model, and found from these
(engine.surgery.heads.drafts).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from engine.core.types import Decoding
from engine.models.decode import Begun, begin, draw_on, text_of
from engine.models.load_language_model import LanguageModel
from engine.models.runtime import is_out_of_memory
from engine.surgery.heads.drafts import can_draft, redrawn
from engine.surgery.heads.mask import masked
from engine.tracks.language_models.context import Measurement, PromptContext, Shard
from engine.tracks.language_models.measurements._texts import dense_texts, drafts_of, off_together


class Texts(Measurement):
    """Columns: prompt_id, text, ids (token ids as sampled, end-of-text included)."""

    name = "texts"
    any_threads = True

    def parts(self, context: PromptContext, shard: Shard) -> dict[str, Any]:
        return {
            "prompts": context.rows_digest(shard.axis, shard.split),
            "decoding": asdict(context.settings.decoding),
            "seed": shard.seed,
        }

    def together(self, context: PromptContext, shard: Shard) -> Hashable:
        return off_together(context, shard)

    def needs(self, context: PromptContext, shard: Shard) -> list[Shard]:
        return [drafts_of(shard)] if len(shard.cut) == 1 else []

    def compute(self, context: PromptContext, shards: Sequence[Shard]) -> list[pd.DataFrame]:
        dense = list(dict.fromkeys(dense_texts(shard) for shard in shards))
        parts = [context.rows(one.axis, one.split).assign(seed=one.seed) for one in dense]
        table = pd.concat(parts, ignore_index=True)
        cuts = list(dict.fromkeys(shard.cut for shard in shards))
        found = (
            [_drawn_by_arm(context, table, shards[0])]
            if shards[0].arm
            else _drawn(context, table, dense, cuts)
        )
        drawn = dict(zip(cuts, found, strict=True))
        ends = np.cumsum([len(part) for part in parts]).tolist()
        spans = {
            one: slice(end - len(part), end)
            for one, part, end in zip(dense, parts, ends, strict=True)
        }
        return [
            _table(context, table, drawn[shard.cut], spans[dense_texts(shard)]) for shard in shards
        ]

    def size(self, context: PromptContext, shard: Shard) -> float:
        return float(len(context.rows(shard.axis, shard.split)))


def _drawn(
    context: PromptContext,
    table: pd.DataFrame,
    dense: Sequence[Shard],
    cuts: Sequence[tuple[int, ...]],
) -> list[list[list[int]]]:
    """New tokens of every text under each cut; of single heads from the dense model's, where these
    are finished."""
    lm, decoding = context.lm, context.settings.decoding
    begun, masks = _begun(lm, table, decoding), [context.mask(cut) for cut in cuts]
    is_kept = all(len(cut) == 1 for cut in cuts) and all(
        context.kept(drafts_of(one)) for one in dense
    )
    if is_kept and can_draft(lm, begun, decoding):
        try:
            return redrawn(lm, masks, begun, _drafts(context, dense), decoding, context.telling)
        except (MemoryError, RuntimeError) as error:  # then plainly: that takes less
            if not is_out_of_memory(error):
                raise
    found = []
    for at, mask in enumerate(masks):
        with masked(lm, mask):
            mine = context.telling.within(at / len(cuts), 1 / len(cuts))
            found.append(draw_on(lm, begun, decoding, mine)[0])
    return found


def _drafts(context: PromptContext, dense: Sequence[Shard]) -> list[list[int]]:
    """The dense model's new tokens of every text."""
    found = []
    for one, known in zip(dense, context.fetch([drafts_of(one) for one in dense]), strict=True):
        found += (
            known.set_index("prompt_id")["ids"]
            .loc[context.rows(one.axis, one.split)["prompt_id"]]
            .tolist()
        )
    return [list(map(int, ids)) for ids in found]


def _drawn_by_arm(context: PromptContext, table: pd.DataFrame, shard: Shard) -> list[list[int]]:
    """New tokens of every text by what stands in the dense model's place, under the same noise."""
    decoding = context.settings.decoding
    with context.applied(shard) as lm:
        return draw_on(lm, _begun(lm, table, decoding), decoding, context.telling)[0]


def _begun(lm: LanguageModel, table: pd.DataFrame, decoding: Decoding) -> Begun:
    texts, ids, seeds = (table[name].tolist() for name in ("text", "prompt_id", "seed"))
    return begin(lm, texts, ids, seeds, decoding)


def _table(
    context: PromptContext, table: pd.DataFrame, drawn: Sequence[list[int]], span: slice
) -> pd.DataFrame:
    ids = list(drawn[span])
    texts = [text_of(context.lm, one) for one in ids]
    return pd.DataFrame(
        {"prompt_id": table["prompt_id"].to_numpy()[span], "text": texts, "ids": ids}
    )
