"""Measurements of one trial's fine-tuned model under masks, with nothing trained again."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import pandas as pd
import torch

from engine.classifiers.audit import EachAlone
from engine.classifiers.metrics import cross_entropy
from engine.core.ids import rng
from engine.models import runtime
from engine.models.load_text_classifier import TextClassifier
from engine.store.tables import pack
from engine.surgery.heads.mask import gated, masked
from engine.tracks.text_classifiers.context import TEST, TextContext, TextShard
from engine.tracks.text_classifiers.measurements.importance import answers_of
from engine.tracks.text_classifiers.scores.base import in_batches


class UnderMasks(EachAlone):
    """One table per trial, which needs the trial's full model first."""

    any_threads = True

    def needs(self, context: TextContext, shard: TextShard) -> list[TextShard]:
        return [context.tuned_shard(shard.trained, shard.trial)]


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
    Texts are encoded once, masks stacked along the batch. The numbers are those of the masked
    forward pass (`engine.surgery.heads.mask.masked`) to float tolerance.

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


class Silenced(UnderMasks):
    """Array table: probabilities [test texts, classes]."""

    name = "silenced"

    def together(self, context: TextContext, shard: TextShard) -> Hashable:
        return shard.trained, shard.trial  # one model for all its masks

    def table(self, context: TextContext, shard: TextShard) -> pd.DataFrame:
        classifier = context.model_of(shard)
        with masked(classifier, context.mask(shard.off)):
            return pack({"probabilities": answers_of(context, classifier)}, {})

    def size(self, context: TextContext, shard: TextShard) -> float:
        return float(len(context.texts.rows(TEST)))


class LeaveOneOut(UnderMasks):
    """Array table: loss [1 + units, test texts] float32 (cross-entropy with the label, nats) and
    right [1 + units, test texts] bool as uint8. The first row with all heads, the others with one
    head off."""

    name = "leave_one_out"

    def table(self, context: TextContext, shard: TextShard) -> pd.DataFrame:
        texts, second = context.pairs(context.table(TEST))
        labels = context.table(TEST)["label"].to_numpy()
        masks = [(), *((unit,) for unit in range(context.n_units))]
        answers = answers_under(
            context.model_of(shard), texts, second, masks, context.hooks.check, context.inside
        )
        loss = np.stack([cross_entropy(part.astype(np.float64), labels) for part in answers])
        right = answers.argmax(axis=2) == labels
        return pack({"loss": loss.astype(np.float32), "right": right.astype(np.uint8)}, {})

    def size(self, context: TextContext, shard: TextShard) -> float:
        return float((1 + context.n_units) * len(context.texts.rows(TEST)))


class RandomMasks(UnderMasks):
    """Array table: units [masks, n_cut] int64, predicted [masks, test texts] int16, the class each
    mask's model names.

    The masks are the same in every trial, so that trials can be read with the same heads gone or
    with heads of their own.
    """

    name = "random_masks"

    def parts(self, context: TextContext, shard: TextShard) -> dict[str, Any]:
        return {"masks": context.settings.random_masks}

    def table(self, context: TextContext, shard: TextShard) -> pd.DataFrame:
        settings, classifier = context.settings, context.model_of(shard)
        units = random_units(
            context.n_units, shard.n_cut, settings.random_masks, settings.first_seed
        )
        texts, second = context.pairs(context.table(TEST))
        answers = answers_under(
            classifier, texts, second, units.tolist(), context.hooks.check, context.inside
        )
        return pack({"units": units, "predicted": answers.argmax(axis=2).astype(np.int16)}, {})

    def size(self, context: TextContext, shard: TextShard) -> float:
        return float(context.settings.random_masks * len(context.texts.rows(TEST)))


def random_units(total: int, n_cut: int, masks: int, seed: int) -> np.ndarray:
    """Different sets of n_cut of `total` heads, each equally likely, [masks, n_cut] int64
    ascending.

    All there are, in their order, where there are no more than asked for.
    """
    if comb(total, n_cut) <= masks:
        return np.array(list(combinations(range(total), n_cut)), dtype=np.int64)
    draw = rng("random masks", seed, n_cut)
    found: dict[tuple[int, ...], None] = {}
    while len(found) < masks:
        found[tuple(sorted(draw.choice(total, n_cut, replace=False).tolist()))] = None
    return np.array(list(found), dtype=np.int64)
