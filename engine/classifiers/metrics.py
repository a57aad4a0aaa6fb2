"""What a classifier's answers are worth on a set of images, under many sets of image weights at
once.

AUC, accuracy, true and false positive rate. Two classes: of class 1, predicted where p_1 > 0.5.
More: the predicted class is the likeliest one, AUC is one-vs-one or one-vs-rest, and the rates are
the mean over the classes there are.
"""

from __future__ import annotations

import numpy as np

from engine.core.errors import PruneAuditError
from engine.stats.auc import BLOCK, auc, one_vs_one, one_vs_rest

METRICS = ("auc", "accuracy", "tpr", "fpr")
OVO, OVR = "ovo", "ovr"
MULTI_CLASS = {OVO: one_vs_one, OVR: one_vs_rest}
"""AUC of more than two classes, by scikit-learn's name: each pair of classes, or each class against
all others."""
SMALLEST = 1e-12
"""Probability below which the cross-entropy of an image stops growing."""


def checked(probabilities: np.ndarray, n: int, k: int, where: str) -> np.ndarray:
    """The answers as [n, k] float64. Raises PruneAuditError for another shape, and says how many
    are missing."""
    answers = np.asarray(probabilities, dtype=float)
    if answers.shape != (n, k):
        raise PruneAuditError(
            f"{where}: answers of shape {answers.shape}; {n} images of {k} classes need {(n, k)}."
        )
    if bad := int((~np.isfinite(answers)).any(axis=1).sum()):
        raise PruneAuditError(
            f"{where}: the probabilities of {bad} of {n} images are missing or not finite."
        )
    return answers


def predicted(probabilities: np.ndarray) -> np.ndarray:
    """Predicted class per image, [images] int, of probabilities [images, classes].

    The likeliest class, the first of equals; with two classes, 1 where p_1 > 0.5.
    """
    return (
        (probabilities[:, 1] > 0.5).astype(int)
        if probabilities.shape[1] == 2
        else probabilities.argmax(axis=1)
    )


def degenerate(probabilities: np.ndarray) -> bool:
    """True when the same class is predicted for every image of probabilities [images, classes]."""
    return len(np.unique(predicted(probabilities))) < 2


def cross_entropy(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """-log of each image's probability of its true class, in nats, [images]; below SMALLEST counts
    as SMALLEST.

    probabilities [images, classes], labels [images] int.
    """
    return -np.log(np.maximum(probabilities[np.arange(len(labels)), labels], SMALLEST))


def mean_of(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Weighted mean of values [images] for weights [images, sets]: [sets] float64."""
    width = max(1, BLOCK // len(values))
    blocks = [weights[:, start : start + width] for start in range(0, weights.shape[1], width)]
    return np.concatenate([values @ block.astype(float) for block in blocks]) / weights.sum(
        axis=0, dtype=float
    )


def of_images(
    probabilities: np.ndarray, labels: np.ndarray, weights: np.ndarray, multi_class: str = OVO
) -> np.ndarray:
    """METRICS of a set of images, [sets, 4], for weights [images, sets]. NaN where a metric is
    undefined.

    probabilities [images, classes], labels [images] int; multi_class: the AUC of more than two
    classes.
    """
    if probabilities.shape[1] > 2:
        area = MULTI_CLASS[multi_class](probabilities, labels, weights)
        counts = confusion(labels, predicted(probabilities), probabilities.shape[1], weights)
        tpr, fpr = (_mean_known(rates) for rates in _rates(counts))
    else:
        area = auc(probabilities[:, 1], labels == 1, weights)
        counts = confusion(labels, predicted(probabilities), 2, weights)
        tpr, fpr = (rates[1] for rates in _rates(counts))
    return np.stack([area, _ratio(np.trace(counts), counts.sum(axis=(0, 1))), tpr, fpr], axis=-1)


def of_classes(
    probabilities: np.ndarray, labels: np.ndarray, weights: np.ndarray, classes: np.ndarray
) -> np.ndarray:
    """METRICS of each of `classes` [n] int against the rest of a set of images, [sets, n, 4].

    probabilities [images, k], labels [images] int, weights [images, sets]. Accuracy is that of the
    class's own images, so it equals the true positive rate (recall).
    """
    areas = np.stack(
        [auc(probabilities[:, cls], labels == cls, weights) for cls in classes], axis=-1
    )
    tpr, fpr = _rates(confusion(labels, predicted(probabilities), probabilities.shape[1], weights))
    return np.stack([areas, tpr[classes].T, tpr[classes].T, fpr[classes].T], axis=-1)


def confusion(labels: np.ndarray, guesses: np.ndarray, k: int, weights: np.ndarray) -> np.ndarray:
    """Weight of each true class (first) and predicted class (second), [k, k, sets] float64.

    labels and guesses [images] int, weights [images, sets].
    """
    cell = labels * k + guesses
    order = np.argsort(cell, kind="stable")
    present, starts = np.unique(cell[order], return_index=True)
    counts = np.zeros((k * k, weights.shape[1]))
    for code, part in zip(present, np.split(order, starts[1:]), strict=True):
        counts[code] = weights[part].sum(axis=0, dtype=_exact(weights))
    return counts.reshape(k, k, -1)


def _exact(weights: np.ndarray) -> type:
    """The dtype to add weights [images, sets] in: whole numbers are added as such, several times
    faster."""
    return np.uint32 if weights.dtype == np.uint8 else np.float64


def _rates(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """True and false positive rate of each class, [k, sets] each, from a confusion matrix [k, k,
    sets].

    Both are NaN for a class that is not there.
    """
    own = np.einsum("ccs->cs", counts)
    actual, said = counts.sum(axis=1), counts.sum(axis=0)
    there = actual > 0
    rest = actual.sum(axis=0) - actual
    return _ratio(own, actual), np.where(
        there | (len(counts) == 2), _ratio(said - own, rest), np.nan
    )


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """part / whole, of shapes that broadcast to [..., sets]; NaN where the whole is not above
    zero."""
    return np.divide(
        part, whole, out=np.full(np.broadcast(part, whole).shape, np.nan), where=whole > 0
    )


def _mean_known(rates: np.ndarray) -> np.ndarray:
    """Mean of rates [k, sets] over the known classes, [sets]."""
    known = np.isfinite(rates)
    return _ratio(np.where(known, rates, 0.0).sum(axis=0), known.sum(axis=0))
