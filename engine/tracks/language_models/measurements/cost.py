"""What a cut really saves: parameters, bytes, and latency measured beside the dense model in the
same minute."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch

from engine.audit.measurements import latency_row, paired_latency
from engine.core.types import Values
from engine.models.judge import Judge
from engine.models.load_language_model import LanguageModel
from engine.surgery.agreement import agree
from engine.surgery.heads.mask import cut
from engine.tracks.language_models.context import InMemory, Measurement, PromptContext, Shard
from engine.tracks.language_models.effects import (
    CAP,
    AxisData,
    HeadEffects,
    estimated,
    first_order,
)
from engine.tracks.language_models.scores import ScoreJob

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

    def parts(self, context: PromptContext, shard: Shard) -> Values:
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
        return 150.0 if _batch(context.lm) == BATCH else 30.0


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

    def parts(self, context: PromptContext, shard: Shard) -> Values:
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


# A pilot on a few prompts: what one second of each estimator buys, on this model, these prompts
# and this machine.
#
# Bias is read by group means whatever the request reads: the comparison of estimators does not
# hang on it. Everything is computed afresh, on a context of its own, because it measures seconds.
# The measured seconds are kept like any other measurement, so a resumed run decides as the
# interrupted one did.


TEXTS = 96
"""At most so many prompts, the same number of every subgroup as far as there are enough."""
REWEIGHTED, REGENERATED = 8, 3
"""Heads that are reweighted and regenerated."""
COLUMNS = ["estimator", "unit", "value", "error", "seconds", "ess", "n", "effective"]


class Pilot(Measurement):
    """Columns: estimator, unit (-1: all heads at once), value, error (standard error at n texts),
    seconds, ess, effective, n. ess and effective: smallest share of n and smallest number of
    effective samples over subgroups.

    The row of `dense` holds the bias, and the seconds of drawing and judging n texts once.
    """

    name = "pilot"
    version = 3
    any_threads = True
    pace = 3.5

    def parts(self, context: PromptContext, shard: Shard) -> Values:
        return {
            **context.kind("verdicts").parts(context, shard),
            "texts": TEXTS,
            "heads": [REWEIGHTED, REGENERATED],
            "cap": CAP,
        }

    def together(self, context: PromptContext, shard: Shard) -> Shard:
        return shard

    def compute(self, context: PromptContext, shards: Sequence[Shard]) -> list[pd.DataFrame]:
        return [piloted(context, shard) for shard in shards]

    def size(self, context: PromptContext, shard: Shard) -> float:
        return float(min(TEXTS, len(context.rows(shard.axis, shard.split))) * (2 + REGENERATED))


def of_each(rows: pd.DataFrame, each: int) -> pd.DataFrame:
    """So many prompts of every subgroup, in an order that says nothing (prompt ids)."""
    return rows.sort_values("prompt_id").groupby("subgroup", group_keys=False).head(each)


def piloted(
    context: PromptContext,
    shard: Shard,
    reweighted: int = REWEIGHTED,
    regenerated: int = REGENERATED,
) -> pd.DataFrame:
    """The table of a pilot that tries so many heads; one that is kept tries as many as are
    usual."""
    every = context.rows(shard.axis, shard.split)
    few = of_each(every, max(2, TEXTS // max(1, every["subgroup"].nunique())))
    job = ScoreJob(on_prompts(context, few), (shard.axis,), (shard.seed,), splits=(shard.split,))

    def timed(kind: str, *cuts: tuple[int, ...]) -> float:
        """The seconds that these measurements take."""
        start = time.perf_counter()
        job.fetch([Shard(kind, cut, shard.axis, shard.split, shard.seed) for cut in cuts])
        return time.perf_counter() - start

    draw, back = timed("verdicts", ()), timed("text_gradients", ())
    data = AxisData(job, shard.axis)
    first = first_order(data)
    units = pilot_units(first.pooled.value, reweighted)
    weighing = timed("text_logps", *((unit,) for unit in units))
    middles = [  # not the strongest
        len(units) * (2 * at + 1) // (2 * regenerated) for at in range(regenerated)
    ]
    again = sorted({units[place] for place in middles})
    drawing = timed("verdicts", *((unit,) for unit in again))
    parts = [
        pd.DataFrame({"estimator": ["dense", "gradient"], "unit": -1, "seconds": [draw, back]}),
        _rows(first, units),
        _rows(estimated(data, units, "reweight", CAP)).assign(
            seconds=weighing / len(units), effective=data.ess(units)[1]
        ),
        _rows(estimated(data, again, "generate", CAP)).assign(seconds=drawing / len(again)),
    ]
    return pd.concat(parts, ignore_index=True).assign(n=data.n)[COLUMNS]


def pilot_units(values: np.ndarray, count: int) -> list[int]:
    """So many heads to try, by values [units], largest first-order effect first: the strongest, the
    weakest and evenly between them.
    """
    order = np.argsort(-np.abs(values), kind="stable")
    places = np.unique(np.linspace(0, len(order) - 1, min(count, len(order))).round().astype(int))
    return [int(order[place]) for place in places]


def on_prompts(context: PromptContext, rows: pd.DataFrame) -> PromptContext:
    """A context of the same model on these prompts, with no measurement finished yet."""
    judge, prompts = (
        Judge(context.judge.info, context.judge.predict),
        replace(context.prompts, table=rows),
    )
    return replace(context, prompts=prompts, judge=judge, keeper=InMemory())


def _rows(found: HeadEffects, at: Any = slice(None)) -> pd.DataFrame:
    """Effects of the units `at` these places."""
    values = {column: getattr(found.pooled, column)[at] for column in ("value", "error", "ess")}
    units = np.array(found.units)[at]
    return pd.DataFrame({"estimator": found.estimator, "unit": units, **values})
