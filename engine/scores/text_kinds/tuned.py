"""One fine-tuning: heads cut from the pre-trained weights for real, trained, and every test text answered."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch.nn import functional

from engine.errors import MaskError
from engine.metrics.packed import pack
from engine.metrics.text_bench import TEST, TRAIN, TextBench, TextShard
from engine.metrics.workbench import Kind
from engine.models.load_text_classifier import TextClassifier
from engine.scores.text_kinds._work import answers_of
from engine.surgery.agree import agree_on_texts
from engine.surgery.filter_weights import arrays_of
from engine.training.fit import fit
from engine.training.losses import Targets
from engine.training.text_batches import Logits, TextBatches

PROBES = 16
"""Texts on which the masked model and the cut one are compared."""


class Tuned(Kind):
    """Packed: weights/… and curve/… (none for a model as it was brought), probabilities [test texts, classes];
    plainly: parameters, and the largest difference of a logit between masked and cut before training."""

    name = "tuned"

    def parts(self, bench: TextBench, shard: TextShard) -> dict[str, Any]:
        return {}

    def together(self, bench: TextBench, shard: TextShard) -> Hashable:
        return shard

    def compute(self, bench: TextBench, shards: Sequence[TextShard]) -> list[pd.DataFrame]:
        return [self._one(bench, shard) for shard in shards]

    def _one(self, bench: TextBench, shard: TextShard) -> pd.DataFrame:
        if not shard.trained and not bench.settings.retune:
            brought = bench.brought
            return pack({"probabilities": answers_of(bench, brought)}, _plain(brought, 0.0))
        classifier = bench.untrained(shard)
        apart = _apart(bench, shard, classifier) if shard.trained else 0.0
        curve = _fitted(bench, shard, classifier)
        found = {"probabilities": answers_of(bench, classifier)}
        found |= {f"weights/{name}": value for name, value in arrays_of(classifier.model).items()}
        found |= {f"curve/{name}": np.array([row[name] for row in curve]) for name in (curve[0] if curve else ())}
        return pack(found, _plain(classifier, apart))

    def size(self, bench: TextBench, shard: TextShard) -> float:
        tests = len(bench.texts.rows(TEST))
        if not shard.trained and not bench.settings.retune:
            return float(tests)
        return 3.0 * bench.settings.tune.epochs * len(bench.texts.rows(TRAIN)) + tests


def _plain(classifier: TextClassifier, apart: float) -> dict[str, Any]:
    return {"parameters": classifier.n_parameters, "max_logit_difference": apart}


def _fitted(bench: TextBench, shard: TextShard, classifier: TextClassifier) -> list[dict[str, float]]:
    """Fine-tune in place; the curve, one row per epoch."""
    table, recipe = bench.table(TRAIN), bench.settings.tune
    texts, second = bench.pairs(table)
    labels = torch.tensor(table["label"].to_numpy(copy=True), device=classifier.device)
    hot = functional.one_hot(labels, len(classifier.classes)).float()
    batches = TextBatches(texts, second, classifier.encode, recipe.batch, bench.seed("tune", shard.trial))
    head = f"inner.{classifier.adapter.classifier_names(classifier.model)[-1]}"
    return fit(
        Logits(classifier.model), batches, Targets(hot, torch.ones(len(hot), device=hot.device)), recipe, head,
        bench.hooks.check, lambda done, total: bench.inside(done / max(1, total)), bench.partial(bench.key(shard)),
    )  # fmt: skip


def _apart(bench: TextBench, shard: TextShard, small: TextClassifier) -> float:
    """Largest difference of a logit between the masked pre-trained model and the cut one, before anything is trained.

    MaskError where they differ.
    """
    texts, second = bench.pairs(bench.table(TEST).head(PROBES))
    found = agree_on_texts(bench.pretrained(shard.trial), bench.mask(shard.trained), texts, second, small)
    if not found.holds:
        raise MaskError(
            f"{bench.describe(shard)}: the masked model and the cut one differ by {found.max_logit_difference:.3g} in "
            f"a logit (allowed {found.tolerance:.3g}). Nothing was kept of it."
        )
    return found.max_logit_difference
