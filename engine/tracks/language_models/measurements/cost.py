"""What a cut really saves: parameters, bytes, and latency measured beside the dense model in the same minute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
import torch

from engine.audit.latency import latency_row, paired_latency
from engine.models.load_language_model import LanguageModel
from engine.surgery.equivalence import agree
from engine.surgery.heads.cut import cut
from engine.tracks.language_models.context import Measurement, PromptContext, Shard

REPEATS = 15
BATCH = 8
PROBES = 4


class Cost(Measurement):
    """One row: parameters, bytes, latency_ms with the 25th and 75th percentile, dense_latency_ms, speedup (median of
    paired ratios) with its quartiles, n (repeats), max_logit_difference (masked against cut), greedy_equal, agrees."""

    name = "cost"

    def parts(self, context: PromptContext, shard: Shard) -> dict[str, Any]:
        return {"repeats": REPEATS, "batch": BATCH}

    def compute(self, context: PromptContext, shards: Sequence[Shard]) -> list[pd.DataFrame]:
        mask = context.mask(shards[0].cut)
        small = cut(context.lm, mask)
        agreement = agree(context.lm, mask, context.table["text"].head(PROBES).tolist())
        whole = (
            context.lm if context.lm.means is None else cut(context.lm, context.mask(()))
        )  # without the shift of its heads
        length = min(64, whole.n_positions)
        own, dense = paired_latency(
            _pass(small, length), _pass(whole, length), REPEATS, whole.device, context.hooks.check
        )
        row = {
            "parameters": sum(parameter.numel() for parameter in small.model.parameters()),
            "bytes": sum(parameter.numel() * parameter.element_size() for parameter in small.model.parameters()),
            **latency_row(own, dense),
            "max_logit_difference": agreement.max_logit_difference,
            "greedy_equal": agreement.greedy_equal,
            "agrees": agreement.holds,
        }
        return [pd.DataFrame([row]) for _ in shards]

    def size(self, context: PromptContext, shard: Shard) -> float:
        return 150.0


def _pass(lm: LanguageModel, length: int) -> Callable[[], object]:
    """One forward pass over BATCH texts of `length` tokens."""
    ids = torch.zeros((BATCH, length), dtype=torch.int64, device=lm.device)
    return lambda: lm.model(input_ids=ids, use_cache=False)
