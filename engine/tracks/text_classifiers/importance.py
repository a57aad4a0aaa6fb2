"""Importance of every head before and after fine-tuning, for all texts and per group of texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import linregress, spearmanr, t

from engine.core.types import POOLED, rng
from engine.data.texts.load import CLASS
from engine.stats.gap_of_means import FIXED, Trials, difference
from engine.store.runs import where
from engine.tracks.text_classifiers.context import TRAIN, TextContext
from engine.tracks.text_classifiers.procedures import TextArm, importance_shards, truth_shards
from engine.tracks.text_classifiers.scores.base import (
    DRAWS,
    HeadImportance,
    Importance,
    aggregate,
    head_importance,
    says_nothing,
    values_under,
)

Found = tuple[pd.DataFrame, np.ndarray]
"""Numbers per text (index: text_id, or 0 where a score reads none) and unit; n_constant [units]."""
MIN_TEXTS = 10
"""Scored texts below which a group has no importance of its own."""
COLUMNS = "stage score seed axis group unit layer head value low high n n_constant"


def importance_table(context: TextContext, arms: Sequence[TextArm], trials: int) -> pd.DataFrame:
    """One row per stage, score, seed, group of texts and head; seed -1: all seeds together,
    interval over texts."""
    by_text = context.table(TRAIN).set_index("text_id")
    by_text[CLASS] = [context.any_model.classes[label] for label in by_text["label"]]
    axes = (*context.texts.groups, CLASS)
    parts: list[pd.DataFrame] = []
    pools: dict[tuple[str, str], list[Found]] = {}
    for shard in importance_shards(context, arms, trials):
        arrays, plain = context.without_weights(shard)
        found = (
            pd.DataFrame(arrays["per_text"], index=plain["text_ids"] or None),
            arrays["n_constant"],
        )
        pools.setdefault((shard.stage, shard.score), []).append(found)
        parts += _rows(context, (shard.stage, shard.score, shard.trial), found, by_text[list(axes)])
    for (stage, score), of_trials in pools.items():
        tables = [table for table, _ in of_trials]
        parts += _rows(
            context, (stage, score, POOLED), _together(of_trials), by_text[list(axes)], tables
        )
    table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
    return table.reindex(columns=COLUMNS.split())


def _together(trials: Sequence[Found]) -> Found:
    """The mean over trials of every text: a text read in several trials is one text, not several.

    A trial is the table of texts (rows) and units (columns) float32, and n_constant [units].
    """
    tables, n_constant = zip(*trials, strict=True)
    together = pd.concat(tables)
    return together.groupby(level=0).mean().astype(np.float32), np.max(n_constant, axis=0)


def over_trials(
    method: HeadImportance, trials: Sequence[pd.DataFrame], n_layers: int
) -> Importance:
    """Mean over trials of each trial's value, with a 95 % interval that holds trials as well as
    texts.

    trials: tables of texts (rows, by text_id) and units (columns). Texts are redrawn together in
    all trials, trials by the model of `engine.stats.gap_of_means`; a head that a trial's texts say
    nothing about counts as 0 there. A score that reads no texts varies with the trials only.
    """
    known = [part for part in trials if len(part)]
    texts = pd.Index(sorted(set().union(*(part.index for part in known))))
    n = len(texts)
    counts = (
        rng("importance over trials", n)
        .multinomial(n, np.full(n, 1 / n), size=DRAWS)
        .astype(np.float64)
    )
    values, draws = [], []
    for part in known:
        per_text, weights = part.to_numpy(), counts[:, texts.get_indexer(part.index)]
        value = values_under(method, per_text, n_layers, np.ones((1, len(part))))[0]
        silent = np.isnan(value)
        values.append(np.where(silent, 0.0, value))
        draws.append(np.where(silent, 0.0, values_under(method, per_text, n_layers, weights)))
    units = values[0].shape[0]
    shares, size = np.zeros(units, dtype=bool), np.full(units, float(n))
    several = Trials(tuple(range(len(known))), np.stack(values), np.stack(draws), shares, size)
    zero = Trials((FIXED,), np.zeros((1, units)), np.zeros((1, DRAWS, units)), shares, size)
    found = difference(several, zero)
    return Importance(found.value, found.low, found.high, n)


def _rows(
    context: TextContext,
    which: tuple[str, str, int],
    found: Found,
    groups: pd.DataFrame,
    trials: Sequence[pd.DataFrame] = (),
) -> Iterator[pd.DataFrame]:
    """Rows of one score in one trial, or in all of them together.

    which: stage, score, seed; found: the table of texts (rows) and units (columns) float32, and
    n_constant [units].
    trials: the tables behind it, where it stands for several.
    """
    method, model = head_importance(which[1]), context.any_model
    table, n_constant = found
    per_text = table.to_numpy()
    for axis, group, rows in _groups(
        groups.loc[table.index] if method.reads_texts else None, len(table)
    ):
        if len(trials) > 1:
            shown = over_trials(
                method,
                [part[part.index.isin(table.index[rows])] for part in trials],
                model.n_layers,
            )
        else:
            shown = aggregate(method, per_text[rows], model.n_layers)
        constant = n_constant if axis == "" else np.isnan(per_text[rows]).sum(axis=0)
        silent = says_nothing(np.isnan(per_text[rows]).sum(axis=0), len(rows))
        yield _by_head(
            context,
            **dict(zip(("stage", "score", "seed"), which, strict=True)),
            axis=axis,
            group=group,
            value=np.where(silent, 0.0, shown.value),
            low=shown.low,
            high=shown.high,
            n=len(rows) if method.reads_texts else 0,
            n_constant=constant,
        )


def _by_head(context: TextContext, **columns: Any) -> pd.DataFrame:
    """A row per head: unit, layer, head, and these columns, [units] or one value for all."""
    units = np.arange(context.n_units)
    layer, head = np.divmod(units, context.any_model.n_heads)
    return pd.DataFrame({"unit": units, "layer": layer, "head": head, **columns})


def _groups(table: pd.DataFrame | None, n: int) -> Iterator[tuple[str, str, np.ndarray]]:
    """Axis, group and rows [texts] int: of all texts, then of every group of texts that is large
    enough.

    A score that reads no texts (None) has no groups.
    """
    yield "", "", np.arange(n)
    if table is None:
        return
    for axis in table.columns:
        for group in sorted(table[axis].unique()):
            rows = np.flatnonzero((table[axis] == group).to_numpy())
            if group and len(rows) >= MIN_TEXTS:
                yield axis, str(group), rows


TRUTH_DRAWS = 400
COSTS = ("loss", "accuracy")
TRUTH = "metric seed unit layer head cost low high n"
NUMBERS = ("pearson", "spearman", "slope", "slope_low", "slope_high")
AGREEMENT = ["score", "metric", "seed", *NUMBERS, "n_heads"]


def truth_table(context: TextContext, trials: int) -> pd.DataFrame:
    """A row per head, metric and seed (-1: mean over seeds): what silencing it costs on the test
    texts.

    cost: mean cross-entropy without the head minus with it (nats), accuracy with the head minus
    without it: positive where the head helps. Intervals are 95 %, of a single seed over texts, of
    the mean over texts and seeds.
    """
    parts = []
    for metric in COSTS if truth_shards(context, trials) else ():
        found = _trials(context, metric, trials)
        each = {number: found.only(number) for number in found.numbers}
        parts += [
            _head_truth_rows(context, some, metric, seed)
            for seed, some in {**each, POOLED: found}.items()
        ]
    table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
    return table.reindex(columns=TRUTH.split())


def _trials(context: TextContext, metric: str, trials: int) -> Trials:
    """Costs of every head in every trial, the same redrawn texts in all."""
    shards = truth_shards(context, trials)
    per_text = [_costs(context.without_weights(shard)[0], metric) for shard in shards]
    n, units = per_text[0].shape
    weights = rng("leave one out", n).multinomial(n, np.full(n, 1 / n), size=TRUTH_DRAWS) / n
    draws = np.stack([weights @ costs for costs in per_text])
    values = np.stack([costs.mean(axis=0) for costs in per_text])
    numbers = tuple(shard.trial for shard in shards)
    return Trials(
        numbers,
        values,
        draws,
        np.zeros(units, dtype=bool),
        np.full(units, float(n)),
        most=np.inf if metric == "loss" else 1.0,
    )


def _costs(arrays: dict[str, np.ndarray], metric: str) -> np.ndarray:
    """Cost of every head for every text, [texts, units] float64."""
    found = arrays["loss" if metric == "loss" else "right"].astype(np.float64)
    return ((found[1:] - found[0]) * (1.0 if metric == "loss" else -1.0)).T


def _head_truth_rows(context: TextContext, trials: Trials, metric: str, seed: int) -> pd.DataFrame:
    shape = (1, *trials.draws.shape[1:])
    zero = Trials((FIXED,), np.zeros((1, shape[2])), np.zeros(shape), trials.shares, trials.units)
    found = difference(trials, zero)
    ends = {"cost": found.value, "low": found.low, "high": found.high}
    n = trials.units.astype(int)
    return _by_head(context, metric=metric, seed=seed, **ends, n=n)


def agreement_table(importance: pd.DataFrame, truth: pd.DataFrame) -> pd.DataFrame:
    """How each score of the fine-tuned model goes with the cost of its heads, over heads, seed by
    seed and pooled.

    slope: of the cost on the score in standard deviations of the score, least squares: what a head
    that stands one deviation higher costs more. Its interval is 95 %, of the regression over heads.
    """
    rows, mine = [], where(importance, stage="fine-tuned", group="")
    for (score, seed), part in mine.groupby(["score", "seed"]):
        for metric, costs in where(truth, seed=seed).groupby("metric"):
            both = part[["unit", "value"]].merge(costs[["unit", "cost"]]).dropna()
            found = agreement(both["value"], both["cost"])
            rows.append({"score": score, "metric": metric, "seed": seed, **found})
    return pd.DataFrame(rows, columns=AGREEMENT)


def agreement(score: Sequence[float], cost: Sequence[float]) -> dict[str, float]:
    """Pearson, Spearman and slope (see `agreement_table`) of scores and costs [heads]; NaN where
    one never varies."""
    x, y = np.asarray(score, dtype=float), np.asarray(cost, dtype=float)
    found = [np.nan] * len(NUMBERS)
    if len(x) >= 3 and np.ptp(x) and np.ptp(y):
        fit = linregress((x - x.mean()) / x.std(ddof=1), y)
        half, rho = t.isf(0.025, len(x) - 2) * fit.stderr, spearmanr(x, y).statistic
        found = [fit.rvalue, rho, fit.slope, fit.slope - half, fit.slope + half]
    return {**dict(zip(NUMBERS, map(float, found), strict=True)), "n_heads": len(x)}
