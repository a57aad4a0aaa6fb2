"""Answers of one classifier under many masks: texts encoded once, masks stacked along the batch.

The numbers are those of the masked forward pass (`engine.surgery.heads.mask.masked`), one mask
after another, to float tolerance; hundreds of masks take seconds where that takes minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from engine.models import runtime
from engine.models.load_text_classifier import TextClassifier
from engine.surgery.heads.mask import gated
from engine.tracks.text_classifiers.scores.base import in_batches

CPU_ROWS, GPU_ROWS = 256, 8192
"""Rows (masks x texts) of one stacked pass."""
TEXTS_AT_ONCE = 64


def answers_under(
    clf: TextClassifier,
    texts: Sequence[str],
    texts_b: Sequence[str] | None,
    masks: Sequence[Sequence[int]],
    check: Callable[[], None] = lambda: None,
    inside: Callable[[float], None] = lambda share: None,
    rows: int | None = None,
) -> np.ndarray:
    """Probabilities with the heads of each mask silenced, float32 [masks, texts, classes].

    masks: flat units of each; rows: of one pass, texts times masks. MaskError as for `masked`.
    """
    room = rows or (CPU_ROWS if clf.device.type == "cpu" else GPU_ROWS)
    found = np.zeros((len(masks), len(texts), len(clf.classes)), dtype=np.float32)
    gates, done = _gates(clf, masks), 0
    for places, batch, _ in in_batches(clf, texts, texts_b, min(room, TEXTS_AT_ONCE)):
        left = 0
        while left < len(masks):
            check()

            def attempt(size: int, left: int = left, batch: dict = batch) -> np.ndarray:
                return _stacked(clf, batch, gates[left : left + size])

            part = runtime.with_backoff(attempt, max(1, room // len(places)))
            found[left : left + len(part), places] = part
            left += len(part)
        done += len(places)
        inside(done / len(texts))
    return found


def _gates(clf: TextClassifier, masks: Sequence[Sequence[int]]) -> torch.Tensor:
    """1 where a head stays, 0 where it is silenced, [masks, layers, heads]."""
    gates = torch.ones(len(masks), clf.n_layers * clf.n_heads)
    for mask, units in enumerate(masks):
        gates[mask, list(units)] = 0.0
    return gates.view(len(masks), clf.n_layers, clf.n_heads)


@torch.no_grad()
def _stacked(
    clf: TextClassifier, batch: dict[str, torch.Tensor], gates: torch.Tensor
) -> np.ndarray:
    """Probabilities of encoded texts under each of gates [masks, layers, heads], [masks, texts,
    classes]."""
    texts = len(batch["input_ids"])
    repeated = {name: values.repeat(len(gates), 1) for name, values in batch.items()}
    with gated(clf, gates.repeat_interleave(texts, dim=0)):
        answers = torch.softmax(clf.logits(repeated), dim=-1)
    return answers.unflatten(0, (len(gates), texts)).cpu().numpy()
