"""What silencing each head alone costs, with intervals over texts and seeds, and how every score
agrees with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from scipy.stats import linregress, spearmanr, t

from engine.core.ids import rng
from engine.core.types import POOLED
from engine.stats.multi_reader import FIXED, Trials, difference
from engine.tracks.text_classifiers.context import TextContext
from engine.tracks.text_classifiers.shards import truth_shards

DRAWS = 400
COSTS = ("loss", "accuracy")
TRUTH = ["metric", "seed", "unit", "layer", "head", "cost", "low", "high", "n"]
AGREEMENT = [
    "score",
    "metric",
    "seed",
    "pearson",
    "spearman",
    "slope",
    "slope_low",
    "slope_high",
    "n_heads",
]


def truth_table(context: TextContext, trials: int) -> pd.DataFrame:
    """A row per head, metric and seed (-1: mean over seeds): what silencing it costs on the test
    texts.

    cost: mean cross-entropy without the head minus with it (nats), accuracy with the head minus
    without it: positive where the head helps. Intervals are 95 %, of a single seed over texts, of
    the mean over texts and seeds.
    """
    parts = []
    for metric in COSTS:
        found = _trials(context, metric, trials)
        if found is None:
            continue
        parts += [_rows(context, found.only(number), metric, number) for number in found.numbers]
        parts.append(_rows(context, found, metric, POOLED))
    return pd.concat(parts, ignore_index=True)[TRUTH] if parts else pd.DataFrame(columns=TRUTH)


def _trials(context: TextContext, metric: str, trials: int) -> Trials | None:
    """Costs of every head in every trial, the same redrawn texts in all; None where nothing was
    measured."""
    shards = truth_shards(context, trials)
    if not shards:
        return None
    per_text = [_costs(context.without_weights(shard)[0], metric) for shard in shards]
    n, units = per_text[0].shape
    weights = rng("leave one out", n).multinomial(n, np.full(n, 1 / n), size=DRAWS) / n
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


def _rows(context: TextContext, trials: Trials, metric: str, seed: int) -> pd.DataFrame:
    shape = (1, *trials.draws.shape[1:])
    zero = Trials((FIXED,), np.zeros((1, shape[2])), np.zeros(shape), trials.shares, trials.units)
    found, units = difference(trials, zero), np.arange(shape[2])
    heads = context.any_model.n_heads
    return pd.DataFrame(
        {
            "metric": metric,
            "seed": seed,
            "unit": units,
            "layer": units // heads,
            "head": units % heads,
            "cost": found.value,
            "low": found.low,
            "high": found.high,
            "n": trials.units.astype(int),
        }
    )


def agreement_table(importance: pd.DataFrame, truth: pd.DataFrame) -> pd.DataFrame:
    """How each score of the fine-tuned model goes with the cost of its heads, over heads, seed by
    seed and pooled.

    slope: of the cost on the score in standard deviations of the score, least squares: what a head
    that stands one deviation higher costs more. Its interval is 95 %, of the regression over heads.
    """
    mine = importance[(importance["stage"] == "fine-tuned") & (importance["group"] == "")]
    rows = [
        row
        for keys, part in mine.groupby(["score", "seed"])
        for row in _agreements(keys, part, truth)
    ]
    return pd.DataFrame(rows, columns=AGREEMENT)


def _agreements(
    keys: tuple[str, int], part: pd.DataFrame, truth: pd.DataFrame
) -> Iterator[dict[str, object]]:
    for metric, costs in truth[truth["seed"] == keys[1]].groupby("metric"):
        both = (
            part.set_index("unit")["value"]
            .to_frame("score")
            .join(costs.set_index("unit")["cost"])
            .dropna()
        )
        yield {
            "score": keys[0],
            "metric": metric,
            "seed": keys[1],
            **agreement(both["score"], both["cost"]),
        }


def agreement(score: Sequence[float], cost: Sequence[float]) -> dict[str, float]:
    """Pearson, Spearman and slope (see `agreement_table`) of scores and costs [heads]; NaN where
    one never varies."""
    x, y = np.asarray(score, dtype=float), np.asarray(cost, dtype=float)
    nothing = dict.fromkeys(("pearson", "spearman", "slope", "slope_low", "slope_high"), np.nan)
    if len(x) < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return {**nothing, "n_heads": len(x)}
    fit = linregress((x - x.mean()) / x.std(ddof=1), y)
    half = t.isf(0.025, len(x) - 2) * fit.stderr
    return {
        "pearson": float(fit.rvalue),
        "spearman": float(spearmanr(x, y).statistic),
        "slope": float(fit.slope),
        "slope_low": float(fit.slope - half),
        "slope_high": float(fit.slope + half),
        "n_heads": len(x),
    }
