"""What every head is worth to a fine-tuned model: its answers to the test texts with that head
alone silenced."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from engine.classifiers.metrics import cross_entropy
from engine.store.tables import pack
from engine.tracks.text_classifiers.context import TEST, TextContext, TextShard
from engine.tracks.text_classifiers.masked_answers import answers_under
from engine.tracks.text_classifiers.measurements._masked import UnderMasks


class LeaveOneOut(UnderMasks):
    """Array table: loss [1 + units, test texts] float32 (cross-entropy with the label, nats) and
    right [1 + units, test texts] bool as uint8; the first row with all heads, the others with one
    head off."""

    name = "leave_one_out"

    def parts(self, context: TextContext, shard: TextShard) -> dict[str, Any]:
        return {}

    def of_trial(self, context: TextContext, shard: TextShard) -> pd.DataFrame:
        texts, second = context.pairs(context.table(TEST))
        labels = context.table(TEST)["label"].to_numpy()
        masks = [(), *((unit,) for unit in range(context.n_units))]
        answers = answers_under(
            context.model_of(shard), texts, second, masks, context.hooks.check, context.inside
        )
        loss = np.stack([cross_entropy(part.astype(np.float64), labels) for part in answers])
        right = answers.argmax(axis=2) == labels
        return pack({"loss": loss.astype(np.float32), "right": right.astype(np.uint8)}, {})

    def size(self, context: TextContext, shard: TextShard) -> float:
        return float((1 + context.n_units) * len(context.texts.rows(TEST)))
