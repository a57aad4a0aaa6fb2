"""A pilot on a few prompts: what one second of each estimator buys, on this model, these prompts
and this machine.

Bias is read by group means whatever the request reads: the comparison of estimators does not hang
on it. Everything is computed afresh, on a context of its own, because it measures seconds. The
measured seconds are kept like any other measurement, so a resumed run decides as the interrupted
one did.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from engine.models.judge import Judge
from engine.tracks.language_models.bias_intervals import BiasErrors
from engine.tracks.language_models.context import InMemory, Measurement, PromptContext, Shard
from engine.tracks.language_models.effects import (
    CAP,
    Effects,
    by_gradient,
    by_reweighting,
    by_texts,
    codes_of,
    effective_share,
)
from engine.tracks.language_models.effects import weights as logw_to_weights

TEXTS = 96
"""At most so many prompts, the same number of every subgroup as far as there are enough."""
REWEIGHTED, REGENERATED = 8, 3
"""Heads that are reweighted and regenerated."""


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

    def parts(self, context: PromptContext, shard: Shard) -> dict[str, Any]:
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


def pilot_prompts(rows: pd.DataFrame) -> pd.DataFrame:
    """The prompts of a pilot: at most TEXTS, equal per subgroup, in an order that says nothing
    (prompt ids)."""
    each = max(2, TEXTS // max(1, rows["subgroup"].nunique()))
    return rows.sort_values("prompt_id").groupby("subgroup", group_keys=False).head(each)


def piloted(
    context: PromptContext,
    shard: Shard,
    reweighted: int = REWEIGHTED,
    regenerated: int = REGENERATED,
) -> pd.DataFrame:
    """The table of a pilot that tries so many heads; one that is kept tries as many as are
    usual."""
    small = _small(context, shard)
    dense, draw = _timed(small, [Shard("verdicts", (), shard.axis, shard.split, shard.seed)])
    table = small.rows(shard.axis, shard.split).merge(dense[0], on="prompt_id")
    errors = BiasErrors(table)
    gradients, back = _timed(
        small, [Shard("text_gradients", (), shard.axis, shard.split, shard.seed)]
    )
    first = by_gradient(table, _aligned(table, gradients[0]), errors=errors)
    rows = [_row("dense", -1, np.nan, np.nan, draw, np.nan, len(table))]
    rows.append(_row("gradient", -1, np.nan, np.nan, back, np.nan, len(table)))
    units = pilot_units(first.value, reweighted)
    rows += [
        _row("gradient", unit, first.value[unit], first.error[unit], np.nan, np.nan, len(table))
        for unit in units
    ]
    logw, seconds = _timed(
        small, [Shard("text_logps", (unit,), shard.axis, shard.split, shard.seed) for unit in units]
    )
    weights = np.stack([_aligned(table, part)[:, 0] for part in logw], axis=1)
    found = by_reweighting(table, weights, errors=errors, cap=CAP)
    rows += _rows("reweight", units, found, seconds / len(units), len(table))
    middles = [
        len(units) * (2 * at + 1) // (2 * regenerated) for at in range(regenerated)
    ]  # not the strongest
    again = sorted({units[place] for place in middles})
    texts, seconds = _timed(
        small, [Shard("verdicts", (unit,), shard.axis, shard.split, shard.seed) for unit in again]
    )
    off = np.stack([_aligned(table, part)[:, 0] for part in texts], axis=1)
    rows += _rows(
        "generate", again, by_texts(table, off, errors=errors), seconds / len(again), len(table)
    )
    codes = codes_of(table)
    share = effective_share(logw_to_weights(weights, codes), codes) * np.bincount(codes)[:, None]
    effective = dict(zip(units, share.min(axis=0), strict=True))
    found = pd.DataFrame(rows)
    return found.assign(
        effective=found["unit"].map(effective).where(found["estimator"] == "reweight")
    )


def pilot_units(values: np.ndarray, count: int) -> list[int]:
    """So many heads to try, by values [units], largest first-order effect first: the strongest, the
    weakest and evenly between them.
    """
    order = np.argsort(-np.abs(values), kind="stable")
    places = np.unique(np.linspace(0, len(order) - 1, min(count, len(order))).round().astype(int))
    return [int(order[place]) for place in places]


def _small(context: PromptContext, shard: Shard) -> PromptContext:
    """A context of the same model on a few prompts, with no measurement finished yet."""
    rows = pilot_prompts(context.rows(shard.axis, shard.split))
    judge = Judge(context.judge.info, context.judge.predict)
    return replace(
        context, prompts=replace(context.prompts, table=rows), judge=judge, keeper=InMemory()
    )


def _timed(context: PromptContext, shards: list[Shard]) -> tuple[list[pd.DataFrame], float]:
    start = time.perf_counter()
    tables = context.fetch(shards)
    return tables, time.perf_counter() - start


def _aligned(table: pd.DataFrame, part: pd.DataFrame) -> np.ndarray:
    """The value columns of `part` in the row order of `table`, [rows, columns] float64."""
    return part.set_index("prompt_id").loc[table["prompt_id"]].to_numpy(dtype=float)


def _rows(
    name: str, units: list[int], found: Effects, seconds: float, n: int
) -> list[dict[str, Any]]:
    return [
        _row(name, unit, found.value[at], found.error[at], seconds, found.ess[at], n)
        for at, unit in enumerate(units)
    ]


def _row(
    name: str, unit: int, value: float, error: float, seconds: float, ess: float, n: int
) -> dict[str, Any]:
    found = {"estimator": name, "unit": unit, "value": value, "error": error}
    return {**found, "seconds": seconds, "ess": ess, "n": n}
