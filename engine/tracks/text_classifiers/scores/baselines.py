"""What conductance is compared with: Michel's score, |∂L/∂ξ_h|, how much the loss would change with
the head's gate (Michel et al. 2019). And two that read no text: the size of a head's weights, and
chance, the floor of any method."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from engine.core.errors import PruneAuditError
from engine.core.types import rng
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


class Michel(HeadImportance):
    """L is the cross-entropy with the label. Means over texts are divided by their L2 norm within
    the layer."""

    name = "michel"
    settings = (AT_ONCE,)
    not_in_key = ("at_once",)

    def scored(self, texts: Texts) -> ImportanceOfTexts:
        """per_text is |∂L/∂ξ_h| of each text, in nats."""
        found = per_text(texts, lambda rows, batch, _: [*_slopes(texts, batch, texts.labels[rows])])
        if not np.isfinite(found[:, np.concatenate(kept_units(texts.clf))]).all():
            raise PruneAuditError(
                f"{texts.clf.name} gives gradients that are not finite: its weights are damaged, or"
                " the precision is too low."
            )
        return nan_where_cut(texts.clf, found)

    def of_means(self, means: np.ndarray, n_layers: int) -> np.ndarray:
        """Each layer of means [..., units] divided by its L2 norm, as published; a layer of zeros
        stays zero."""
        layers = means.reshape(*means.shape[:-1], n_layers, -1)
        norms = np.sqrt(np.nansum(np.square(layers), axis=-1, keepdims=True))
        return (layers / np.where(norms > 0, norms, 1.0)).reshape(means.shape)


def _slopes(texts: Texts, batch: dict[str, Tensor], labels: np.ndarray) -> Iterator[np.ndarray]:
    """|∂L/∂ξ| at ξ = 1 of every text, [rows, heads left] per layer, from one backward pass.

    ξ scales what a head hands to the output projection, a: the derivative is the sum over tokens of
    <∂L/∂a, a>. Texts do not see each other, so the gradient of their summed losses is each text's
    own.
    """
    import torch

    from engine.surgery.heads.prefix import heads_kept

    clf, heads = texts.clf, list(map(len, kept_units(texts.clf)))
    wanted = torch.as_tensor(labels, dtype=torch.int64, device=clf.device)
    alive = [layer for layer, count in enumerate(heads) if count]
    with torch.enable_grad(), heads_kept(clf, alive) as kept:
        loss = torch.nn.functional.cross_entropy(clf.logits(batch), wanted, reduction="sum")
        slopes = torch.autograd.grad(loss, kept) if kept else ()
    each = zip(slopes, kept, strict=True)
    for count in heads:
        if not count:
            yield np.empty((len(labels), 0))
            continue
        slope, inside = next(each)
        found = (slope * inside.detach()).double().sum(1)
        yield found.unflatten(1, (count, -1)).sum(2).abs().cpu().numpy()


class Magnitude(HeadImportance):
    """The L2 norm of a head's weights: its q, k, v with their biases, and its share of the output
    projection, whose bias belongs to no head."""

    name = "magnitude"
    reads_texts = False

    def scored(self, texts: Texts) -> ImportanceOfTexts:
        """One row: the L2 norm of each head's weights and biases."""
        clf = texts.clf
        values = np.full(clf.n_layers * clf.n_heads, np.nan)
        for layer, units in enumerate(kept_units(clf)):
            texts.check()
            for place, unit in enumerate(units):
                parts = clf.adapter.head_tensors(clf.model, layer, place)
                values[unit] = np.sqrt(
                    sum(float(part.detach().double().square().sum()) for part in parts)
                )
        return nan_where_cut(clf, values[None])


class Random(HeadImportance):
    """A seeded random number per head; a head keeps its number while others are cut."""

    name = "random"
    reads_texts = False
    draws = True

    def scored(self, texts: Texts) -> ImportanceOfTexts:
        """One row of uniform numbers drawn with the seed."""
        texts.check()
        clf = texts.clf
        values = rng("random heads", texts.seed).random(clf.n_layers * clf.n_heads)
        return nan_where_cut(clf, values[None])
