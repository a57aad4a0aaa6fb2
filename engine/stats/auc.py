"""ROC-AUC, plain, one-vs-one and one-vs-rest, under many sets of image weights at once; ties count
one half."""

from __future__ import annotations

from itertools import combinations

import numpy as np

BLOCK = 1_000_000
"""Numbers held at once per array: the sets of weights are worked through in blocks of this size."""
PART = 64
"""Terms added in 32 bits before the sum goes on in 64: keeps large sums exact enough."""


def auc(scores: np.ndarray, positive: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Chance that a positive image scores higher than a negative one, ties counting one half.

    scores [images], positive [images] bool, weights [images, sets]: one area per set, [sets]
    float64. NaN where a set has no weight on one of the two classes. Same as sklearn's
    roc_auc_score with sample_weight, for any number of sets with one sort.
    """
    high, low = positive, ~positive
    return _area(scores[high], scores[low], weights[high], weights[low])


def one_vs_one(probabilities: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Mean over pairs of classes of the mean of both directions' AUC (Hand & Till 2001), shapes as
    in `auc`.

    probabilities [images, classes], labels [images] int. The pairs are those with weight on both
    classes; NaN where there is none. With all classes there it is sklearn's
    roc_auc_score(multi_class="ovo", average="macro"); with two classes whose probabilities sum to
    one it is `auc`.
    """
    rows = {int(label): np.flatnonzero(labels == label) for label in np.unique(labels)}
    weight = {label: weights[places] for label, places in rows.items()}
    total, count = np.zeros(weights.shape[1]), np.zeros(weights.shape[1])
    for a, b in combinations(rows, 2):
        there = _area(probabilities[rows[a], a], probabilities[rows[b], a], weight[a], weight[b])
        back = _area(probabilities[rows[b], b], probabilities[rows[a], b], weight[b], weight[a])
        known = np.isfinite(there)
        total += np.where(known, (there + back) / 2, 0.0)
        count += known
    return np.divide(total, count, out=np.full(len(total), np.nan), where=count > 0)


def one_vs_rest(probabilities: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Mean over classes of each one's AUC against all others, shapes as in `auc`.

    probabilities [images, classes], labels [images] int. The classes are those with weight; NaN
    below two of them. With all classes there it is sklearn's roc_auc_score(multi_class="ovr",
    average="macro").
    """
    areas = np.stack(
        [auc(probabilities[:, label], labels == label, weights) for label in np.unique(labels)]
    )
    known = np.isfinite(areas)
    total, count = np.where(known, areas, 0.0).sum(axis=0), known.sum(axis=0)
    return np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0)


def _area(
    high: np.ndarray, low: np.ndarray, high_weights: np.ndarray, low_weights: np.ndarray
) -> np.ndarray:
    """AUC of positive scores `high` [positives] over negative scores `low` [negatives]: [sets]
    float64.

    Weights are [positives, sets] and [negatives, sets].
    """
    sets = high_weights.shape[1]
    if not len(high) or not len(low):
        return np.full(sets, np.nan)
    above, below = np.argsort(high, kind="stable"), np.argsort(low, kind="stable")
    high, low = high[above], low[below]
    # How many negatives lie strictly below each positive, and how many at most as high: the
    # difference is ties.
    places = np.searchsorted(low, high, "left"), np.searchsorted(low, high, "right")
    won = np.empty(sets)
    width = max(1, BLOCK // max(len(high), len(low)))
    for start in range(0, sets, width):
        block = slice(start, start + width)
        won[block] = _won(high_weights[above, block], low_weights[below, block], *places)
    pairs = high_weights.sum(axis=0, dtype=float) * low_weights.sum(axis=0, dtype=float)
    return np.divide(won, pairs, out=np.full(sets, np.nan), where=pairs > 0)


def _won(
    positive: np.ndarray, negative: np.ndarray, less: np.ndarray, at_most: np.ndarray
) -> np.ndarray:
    """Weight of the pairs a positive wins, [sets] float64, from weights sorted by score.

    positive [positives, sets], negative [negatives, sets]; less and at_most [positives] int: how
    many negatives score strictly lower, and how many at most as high. Small whole weights are exact
    in 32 bits.
    """
    kind = np.float64 if positive.dtype == np.float64 else np.float32
    passed = np.zeros((len(negative) + 1, negative.shape[1]), dtype=kind)
    passed[1:] = negative
    np.cumsum(passed, axis=0, out=passed)
    won = passed[less]
    if (less != at_most).any():
        won += passed[at_most]
        won *= 0.5
    won *= positive
    return np.add.reduceat(won, np.arange(0, len(won), PART), axis=0).sum(axis=0, dtype=float)
