"""Michel: |∂L/∂ξ_h|, how much the loss would change with the head's gate (Michel et al. 2019)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from engine.core.errors import PruneAuditError
from engine.tracks.text_classifiers.scores.base import (
    AT_ONCE,
    HeadImportance,
    ImportanceOfTexts,
    Texts,
    kept_units,
    nan_where_cut,
    per_text,
)

if TYPE_CHECKING:
    from torch import Tensor

    from engine.models.load_text_classifier import TextClassifier


class Michel(HeadImportance):
    """L is the cross-entropy with the label. Means over texts are divided by their L2 norm within
    the layer."""

    name = "michel"
    settings = (AT_ONCE,)
    not_in_key = ("at_once",)

    def scored(self, texts: Texts) -> ImportanceOfTexts:
        """per_text is |∂L/∂ξ_h| of each text, in nats."""
        clf = texts.clf
        layers = [(layer, units) for layer, units in enumerate(kept_units(clf)) if len(units)]

        def of_batch(rows: np.ndarray, batch: dict[str, Tensor], _: int) -> list[np.ndarray]:
            slopes = iter(_slopes(clf, batch, texts.labels[rows], layers))
            return [
                np.abs(next(slopes)) if len(units) else np.empty((len(rows), 0))
                for units in kept_units(clf)
            ]

        found = per_text(texts, of_batch)
        if not all(np.isfinite(found[:, units]).all() for _, units in layers):
            raise PruneAuditError(
                f"{clf.name} gives gradients that are not finite: its weights are damaged, or the"
                " precision is too low."
            )
        return nan_where_cut(clf, found)

    def of_means(self, means: np.ndarray, n_layers: int) -> np.ndarray:
        """Each layer of means [..., units] divided by its L2 norm, as published; a layer of zeros
        stays zero."""
        layers = means.reshape(*means.shape[:-1], n_layers, -1)
        norms = np.sqrt(np.nansum(np.square(layers), axis=-1, keepdims=True))
        return (layers / np.where(norms > 0, norms, 1.0)).reshape(means.shape)


def _slopes(
    clf: TextClassifier,
    batch: dict[str, Tensor],
    labels: np.ndarray,
    layers: Sequence[tuple[int, np.ndarray]],
) -> list[np.ndarray]:
    """∂L/∂ξ at ξ = 1 of every text, [rows, heads] per layer, from one backward pass.

    ξ scales what a head hands to the output projection, a: the derivative is the sum over tokens of
    <∂L/∂a, a>. Texts do not see each other, so the gradient of their summed losses is each text's
    own.
    """
    import torch

    from engine.surgery.heads.prefix import heads_kept

    if not layers:
        return []
    wanted = torch.as_tensor(labels, dtype=torch.int64, device=clf.device)
    with torch.enable_grad(), heads_kept(clf, [layer for layer, _ in layers]) as kept:
        loss = torch.nn.functional.cross_entropy(clf.logits(batch), wanted, reduction="sum")
        slopes = torch.autograd.grad(loss, kept)
    each = [
        (slope * inside.detach()).double().sum(1)
        for slope, inside in zip(slopes, kept, strict=True)
    ]
    heads = [len(units) for _, units in layers]
    return [
        found.unflatten(1, (count, -1)).sum(2).cpu().numpy()
        for found, count in zip(each, heads, strict=True)
    ]
