"""One fine-tuning: heads cut from the pre-trained weights for real, trained, and every test text
answered."""

from __future__ import annotations

from typing import Any

import pandas as pd
import torch
from torch.nn import functional

from engine.audit.measurements import latency_row, paired_latency
from engine.classifiers.audit import EachAlone
from engine.core.errors import MaskError
from engine.models.load_text_classifier import TextClassifier
from engine.store.runs import pack
from engine.surgery.agreement import agree_on_texts
from engine.surgery.filters.graph import arrays_of
from engine.surgery.heads.mask import cut
from engine.tracks.text_classifiers.context import TEST, TRAIN, TextContext, TextShard
from engine.tracks.text_classifiers.measurements.importance import answers_of
from engine.training.fit import Logits, TextBatches, fit
from engine.training.losses import Targets

PROBES = 16
"""Texts on which the masked model and the cut one are compared."""


class Tuned(EachAlone):
    """Array table: weights/… and curve/… (none for a model as it was brought), probabilities [test
    texts, classes].
    Plainly: parameters, and the largest difference of a logit between masked and cut before
    training.
    """

    name = "tuned"
    pace = 1.3

    def table(self, context: TextContext, shard: TextShard) -> pd.DataFrame:
        if not shard.trained and not context.settings.retune:
            brought = context.any_model
            plain = {"parameters": brought.n_parameters, "max_logit_difference": 0.0}
            return pack({"probabilities": answers_of(context, brought)}, plain)
        classifier = context.untrained(shard)
        apart = _apart(context, shard, classifier) if shard.trained else 0.0
        curve = pd.DataFrame(_fitted(context, shard, classifier))
        found = {"probabilities": answers_of(context, classifier)}
        found |= {f"weights/{name}": value for name, value in arrays_of(classifier.model).items()}
        found |= {f"curve/{name}": curve[name].to_numpy() for name in curve}
        plain = {"parameters": classifier.n_parameters, "max_logit_difference": apart}
        return pack(found, plain)

    def size(self, context: TextContext, shard: TextShard) -> float:
        tests = len(context.texts.rows(TEST))
        if not shard.trained and not context.settings.retune:
            return float(tests)
        return 3.0 * context.settings.tune.epochs * len(context.texts.rows(TRAIN)) + tests


def _fitted(
    context: TextContext, shard: TextShard, classifier: TextClassifier
) -> list[dict[str, float]]:
    """Fine-tune in place; the curve, one row per epoch."""
    table, recipe = context.table(TRAIN), context.settings.tune
    texts, second = context.pairs(table)
    labels = torch.tensor(table["label"].to_numpy(copy=True), device=classifier.device)
    hot = functional.one_hot(labels, len(classifier.classes)).float()
    batches = TextBatches(
        texts, second, classifier.encode, recipe.batch, context.seed("tune", shard.trial)
    )
    head = f"inner.{classifier.adapter.head[-1]}"
    return fit(
        Logits(classifier.model),
        batches,
        Targets(hot, torch.ones(len(hot), device=hot.device)),
        recipe,
        head,
        context.hooks.check,
        lambda done, total: context.inside(done / max(1, total)),
        context.partial(context.key(shard)),
    )


def _apart(context: TextContext, shard: TextShard, small: TextClassifier) -> float:
    """Largest difference of a logit between the masked pre-trained model and the cut one, before
    anything is trained.

    MaskError where they differ.
    """
    texts, second = context.pairs(context.table(TEST).head(PROBES))
    found = agree_on_texts(
        context.pretrained(shard.trial), context.mask(shard.trained), texts, second, small
    )
    if not found.holds:
        raise MaskError(
            f"{context.describe(shard)}: the masked model and the cut one differ by "
            f"{found.max_logit_difference:.3g} in "
            f"a logit (allowed {found.tolerance:.3g}). Nothing was kept of it."
        )
    return found.max_logit_difference


# What a cut saves: parameters, bytes, and latency measured beside the full model in the same
# minute.


REPEATS = 15
BATCH = 8
"""Texts per timed pass."""


class TextCost(EachAlone):
    """One row: parameters, bytes, latency as latency.latency_row has it, and whether masked and cut
    agree. `off` heads are cut for real first."""

    name = "text_cost"
    version = 2
    any_threads = True
    pace = 2.5

    def parts(self, context: TextContext, shard: TextShard) -> dict[str, Any]:
        return {"repeats": REPEATS, "batch": BATCH, "threads": torch.get_num_threads()}

    def needs(self, context: TextContext, shard: TextShard) -> list[TextShard]:
        own = context.tuned_shard(shard.trained, shard.trial)
        return list(dict.fromkeys([context.dense_shard(shard.trial), own]))

    def table(self, context: TextContext, shard: TextShard) -> pd.DataFrame:
        dense, small = context.model_of(context.dense_shard(shard.trial)), context.model_of(shard)
        if shard.off:
            small = cut(small, context.mask(shard.off))
        texts, second = context.pairs(context.table(TEST).head(BATCH))
        batch = dense.encode(texts, second)
        own, whole = paired_latency(
            lambda: small.logits(batch),
            lambda: dense.logits(batch),
            REPEATS,
            dense.device,
            context.hooks.check,
        )
        row = {
            "parameters": small.n_parameters,
            "bytes": sum(value.nbytes for value in small.model.parameters()),
            **latency_row(own, whole),
        }
        # One that was trained after its cut was compared with its mask before that.
        plain = context.without_weights(context.tuned_shard(shard.trained, shard.trial))[1]
        apart, agrees = plain["max_logit_difference"], True
        if shard.off:
            mask = context.mask(shard.off)
            found = agree_on_texts(context.model_of(shard), mask, texts, second, small)
            apart, agrees = found.max_logit_difference, found.holds
        return pd.DataFrame([{**row, "max_logit_difference": apart, "agrees": agrees}])

    def size(self, context: TextContext, shard: TextShard) -> float:
        return 2.0 * REPEATS * BATCH
