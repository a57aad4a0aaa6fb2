"""What chance makes of the same weights: answers with as many heads silenced at random, hundreds of
times."""

from __future__ import annotations

from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import pandas as pd

from engine.core.ids import rng
from engine.store.tables import pack
from engine.tracks.text_classifiers.context import TEST, TextContext, TextShard
from engine.tracks.text_classifiers.masked_answers import answers_under
from engine.tracks.text_classifiers.measurements._masked import UnderMasks


class RandomMasks(UnderMasks):
    """Array table: units [masks, n_cut] int64, predicted [masks, test texts] int16, the class each
    mask's model names.

    The masks are the same in every trial, so that trials can be read with the same heads gone or
    with heads of their own.
    """

    name = "random_masks"

    def parts(self, context: TextContext, shard: TextShard) -> dict[str, Any]:
        return {"masks": context.settings.random_masks}

    def of_trial(self, context: TextContext, shard: TextShard) -> pd.DataFrame:
        settings, classifier = context.settings, context.model_of(shard)
        units = random_units(
            context.n_units, shard.n_cut, settings.random_masks, settings.first_seed
        )
        texts, second = context.pairs(context.table(TEST))
        answers = answers_under(
            classifier, texts, second, units.tolist(), context.hooks.check, context.inside
        )
        return pack({"units": units, "predicted": answers.argmax(axis=2).astype(np.int16)}, {})

    def size(self, context: TextContext, shard: TextShard) -> float:
        return float(context.settings.random_masks * len(context.texts.rows(TEST)))


def random_units(total: int, n_cut: int, masks: int, seed: int) -> np.ndarray:
    """Different sets of n_cut of `total` heads, each equally likely, [masks, n_cut] int64
    ascending.

    All there are, in their order, where there are no more than asked for.
    """
    if comb(total, n_cut) <= masks:
        return np.array(list(combinations(range(total), n_cut)), dtype=np.int64)
    draw = rng("random masks", seed, n_cut)
    found: dict[tuple[int, ...], None] = {}
    while len(found) < masks:
        found[tuple(sorted(draw.choice(total, n_cut, replace=False).tolist()))] = None
    return np.array(list(found), dtype=np.int64)
