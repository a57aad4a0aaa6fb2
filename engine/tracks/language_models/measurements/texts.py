"""Continuations of the prompts of one axis, drawn with one decoding seed.

Those of a pruned variant are mostly those of the dense model, or of another variant that lacks nearly the same heads,
and found from these (engine.surgery.heads.redraw).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from engine.models.decode import begin, draw_on, text_of
from engine.surgery.heads.mask import masked
from engine.surgery.heads.redraw import drawn_again, drawn_plainly
from engine.tracks.language_models.context import Measurement, PromptContext, Shard
from engine.tracks.language_models.measurements._nearest import Place, nearest, remember
from engine.tracks.language_models.measurements._texts import drafts_of, off_together


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
        return [drafts_of(shard)] if shard.cut else []

    def compute(self, context: PromptContext, shards: Sequence[Shard]) -> list[pd.DataFrame]:
        places = list(dict.fromkeys(_place(shard) for shard in shards))
        parts = [context.rows(axis, split).assign(seed=seed) for axis, split, seed in places]
        table = pd.concat(parts, ignore_index=True)
        cuts = list(dict.fromkeys(shard.cut for shard in shards))
        found = [_drawn_by_arm(context, table, shards[0])] if shards[0].arm else _drawn(context, table, places, cuts)
        drawn = dict(zip(cuts, found, strict=True))
        ends = np.cumsum([len(part) for part in parts]).tolist()
        spans = {place: slice(end - len(part), end) for place, part, end in zip(places, parts, ends, strict=True)}
        return [_table(context, table, drawn[shard.cut], spans[_place(shard)]) for shard in shards]

    def size(self, context: PromptContext, shard: Shard) -> float:
        return float(len(context.rows(shard.axis, shard.split)))


def _place(shard: Shard) -> Place:
    return shard.axis, shard.split, shard.seed


def _drawn(
    context: PromptContext, table: pd.DataFrame, places: Sequence[Place], cuts: Sequence[tuple[int, ...]]
) -> list[list[list[int]]]:
    """New tokens of every text under each cut, from finished texts of the dense model or of another cut; texts of
    several cuts, each one head, from the dense model's."""
    lm, decoding = context.lm, context.settings.decoding
    begun = begin(lm, *(table[name].tolist() for name in ("text", "prompt_id", "seed")), decoding)
    near = [nearest(context, place, cuts) for place in places]
    found: list[list[list[int]]] = []
    if all(cuts) and all(near):
        known = [part.set_index("prompt_id")["ids"] for part in context.fetch([one.shard for one in near])]
        wanted = [context.rows(axis, split)["prompt_id"] for axis, split, _ in places]
        drafts = [list(map(int, ids)) for ids in pd.concat([a.loc[b] for a, b in zip(known, wanted, strict=True)])]
        masks, apart = [context.mask(cut) for cut in cuts], max(one.apart for one in near)
        found = drawn_again(lm, masks, begun, drafts, decoding, context.telling, apart)
    for at, cut in enumerate(() if found else cuts):
        with masked(lm, context.mask(cut)):
            mine = context.telling.within(at / len(cuts), 1 / len(cuts))
            found.append(drawn_plainly(lm, begun, decoding, mine))
    remember(context, places, cuts)
    return found


def _drawn_by_arm(context: PromptContext, table: pd.DataFrame, shard: Shard) -> list[list[int]]:
    """New tokens of every text by what stands in the dense model's place, under the same noise."""
    decoding = context.settings.decoding
    with context.applied(shard) as lm:
        begun = begin(lm, *(table[name].tolist() for name in ("text", "prompt_id", "seed")), decoding)
        return draw_on(lm, begun, decoding, context.telling)[0]


def _table(context: PromptContext, table: pd.DataFrame, drawn: Sequence[list[int]], span: slice) -> pd.DataFrame:
    ids = list(drawn[span])
    texts = [text_of(context.lm, one) for one in ids]
    return pd.DataFrame({"prompt_id": table["prompt_id"].to_numpy()[span], "text": texts, "ids": ids})
