"""Importance of every head before and after fine-tuning, for all texts and per group of texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from engine.audit.text_arms import TextArm
from engine.audit.text_shards import importance_shards
from engine.metrics.text_bench import TRAIN, TextBench
from engine.scores.text_base import aggregate, head_importance
from engine.types import POOLED

Found = tuple[np.ndarray, np.ndarray, list[str]]
"""per_text [texts, units], n_constant [units], and which texts they are (none where a score reads none)."""
MIN_TEXTS = 10
"""Scored texts below which a group has no importance of its own."""
COLUMNS = ["stage", "score", "seed", "axis", "group", "unit", "layer", "head", "value", "low", "high", "n",
           "n_constant"]  # fmt: skip


def importance_table(bench: TextBench, arms: Sequence[TextArm], trials: int) -> pd.DataFrame:
    """One row per stage, score, seed, group of texts and head; seed -1: all seeds together, interval over texts."""
    by_text = bench.table(TRAIN).set_index("text_id")
    parts: list[pd.DataFrame] = []
    pools: dict[tuple[str, str], list[Found]] = {}
    for shard in importance_shards(bench, arms, trials):
        arrays, plain = bench.without_weights(shard)
        found = arrays["per_text"], arrays["n_constant"], plain["text_ids"]
        pools.setdefault((shard.stage, shard.score), []).append(found)
        parts += _rows(bench, shard.stage, shard.score, shard.trial, found, by_text)
    for (stage, score), trials_of_it in pools.items():
        parts += _rows(bench, stage, score, POOLED, _together(trials_of_it), by_text)
    return pd.concat(parts, ignore_index=True)[COLUMNS]


def _together(trials: Sequence[Found]) -> Found:
    """Texts of several trials as if they were one's."""
    per_text, n_constant, ids = zip(*trials, strict=True)
    return np.concatenate(per_text), np.sum(n_constant, axis=0), [one for part in ids for one in part]


def _rows(
    bench: TextBench, stage: str, score: str, seed: int, found: Found, by_text: pd.DataFrame
) -> Iterator[pd.DataFrame]:
    """Rows of one score in one trial, or in all of them together."""
    method, model = head_importance(score), bench.any_model
    per_text, n_constant, ids = found
    units = np.arange(bench.n_units)
    for axis, group, rows in _groups(bench, ids, by_text, len(per_text)):
        shown = aggregate(method, per_text[rows], model.n_layers)
        yield pd.DataFrame({
            "stage": stage, "score": score, "seed": seed, "axis": axis, "group": group, "unit": units,
            "layer": units // model.n_heads, "head": units % model.n_heads, "value": shown.value, "low": shown.low,
            "high": shown.high, "n": len(rows) if method.reads_texts else 0,
            "n_constant": n_constant if axis == "" else np.isnan(per_text[rows]).sum(axis=0),
        })  # fmt: skip


def _groups(
    bench: TextBench, ids: Sequence[str], by_text: pd.DataFrame, n: int
) -> Iterator[tuple[str, str, np.ndarray]]:
    """All texts, then every group of texts that is large enough; a score that reads no texts has no groups."""
    yield "", "", np.arange(n)
    if not ids:
        return
    table = by_text.loc[list(ids)]
    for axis in bench.texts.groups:
        for group in sorted(table[axis].unique()):
            rows = np.flatnonzero((table[axis] == group).to_numpy())
            if group and len(rows) >= MIN_TEXTS:
                yield axis, str(group), rows
