"""What a cut really saves: parameters, bytes, and latency measured beside the dense model in the
same minute."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
import torch

from engine.audit.measurements import latency_row, paired_latency
from engine.models.load_language_model import LanguageModel
from engine.surgery.agreement import agree
from engine.surgery.heads.mask import cut
from engine.tracks.language_models.context import Measurement, PromptContext, Shard

REPEATS = 15
BATCH = 8
"""Texts of a timed pass; one of a large model on a processor, whose passes scatter less and would
take longer than its texts."""
LARGE = 50_000_000
"""Parameters of a large model."""
PROBES = 4


class Cost(Measurement):
    """One row: parameters, bytes, latency_ms with the 25th and 75th percentile, dense_latency_ms,
    speedup (median of paired ratios) with its quartiles, n (rounds), max_logit_difference (masked
    against cut), greedy_equal, agrees.
    """

    name = "cost"
    any_threads = True
    pace = 2.1

    def parts(self, context: PromptContext, shard: Shard) -> dict[str, Any]:
        width = context.lm.width  # as it was counted before, where that is how it is loaded
        kept = {} if width == context.lm.dtype.itemsize else {"width": width}
        return {"repeats": REPEATS, "batch": BATCH, **kept}

    def compute(self, context: PromptContext, shards: Sequence[Shard]) -> list[pd.DataFrame]:
        if shards[0].arm:
            return [_cost_of_arm(context, shards[0])] * len(shards)
        small = cut(context.lm, context.mask(shards[0].cut))
        texts = context.table["text"].head(PROBES).tolist()
        agreement = agree(context.lm, context.mask(shards[0].cut), texts, small)
        row = {
            "parameters": small.n_parameters,
            "bytes": bytes_of(small),
            **_latency(context, small),
            "max_logit_difference": agreement.max_logit_difference,
            "greedy_equal": agreement.greedy_equal,
            "agrees": agreement.holds,
        }
        return [pd.DataFrame([row])] * len(shards)

    def size(self, context: PromptContext, shard: Shard) -> float:
        return 150.0


def _cost_of_arm(context: PromptContext, shard: Shard) -> pd.DataFrame:
    """The row of what stands in the dense model's place, and packed_bytes: the same where zeros are
    left out. There is no masked model to agree with."""
    with context.applied(shard) as lm:
        stored, packed = context.arms[shard.arm].bytes(lm)
        row: dict[str, Any] = {"parameters": lm.n_parameters, "bytes": stored}
        row |= {"packed_bytes": packed, **_latency(context, lm)}
    nothing = {"max_logit_difference": math.nan, "greedy_equal": None, "agrees": None}
    return pd.DataFrame([row | nothing])


def bytes_of(lm: LanguageModel) -> int:
    """Bytes of all numbers of a model as its files keep them; tied weights count once."""
    return round(lm.n_parameters * lm.width)


def _latency(context: PromptContext, own: LanguageModel) -> dict[str, float]:
    """Times of one forward pass of it and of the dense model, without the shift of its heads, taken
    in turn."""
    whole = context.lm
    shape = _batch(whole), min(64, whole.n_positions)
    if whole.means is not None:
        whole = cut(whole, context.mask(()))
    passes = _pass(own, shape), _pass(whole, shape)
    return latency_row(*paired_latency(*passes, REPEATS, whole.device, context.hooks.check))


def _batch(lm: LanguageModel) -> int:
    return 1 if lm.n_parameters >= LARGE and torch.device(lm.device).type == "cpu" else BATCH


def _pass(lm: LanguageModel, shape: tuple[int, int]) -> Callable[[], object]:
    """One forward pass over ids of this shape: texts, tokens."""
    ids = torch.zeros(shape, dtype=torch.int64, device=lm.device)
    return lambda: lm.model(input_ids=ids, use_cache=False)


# The L2 norm of every head's weights.


class Norms(Measurement):
    """Columns: value, one row per head in unit order."""

    name = "magnitude"
    any_threads = True

    def parts(self, context: PromptContext, shard: Shard) -> dict[str, Any]:
        return {}

    def compute(self, context: PromptContext, shards: Sequence[Shard]) -> list[pd.DataFrame]:
        lm = context.lm
        heads = [(layer, head) for layer in range(lm.n_layers) for head in range(lm.n_heads)]
        values = [
            math.sqrt(
                sum(
                    float(part.double().pow(2).sum())
                    for part in lm.adapter.head_tensors(lm.model, *place)
                )
            )
            for place in heads
        ]
        return [pd.DataFrame({"value": values})] * len(shards)
