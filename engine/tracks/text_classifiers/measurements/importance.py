"""What a finished model's heads are worth: scored on training texts, silenced on test texts, and
attention with its attribution as matrices for a few of these."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import chain, combinations
from math import comb
from typing import Any

import numpy as np
import pandas as pd
import torch

from engine.classifiers.audit import EachAlone
from engine.classifiers.groups import cross_entropy
from engine.core.errors import PruneAuditError
from engine.core.types import Values, rng
from engine.models import runtime
from engine.models.load_text_classifier import TextClassifier, probabilities_of
from engine.store.runs import pack
from engine.surgery.heads.mask import gated, masked
from engine.tracks.text_classifiers.conductance import conductance, correlations
from engine.tracks.text_classifiers.context import TEST, TRAIN, TextContext, TextShard
from engine.tracks.text_classifiers.scores.base import (
    Texts,
    head_importance,
    in_batches,
    kept_units,
    settings_of,
)


class Importance(EachAlone):
    """Array table: per_text [texts, units] float32 (NaN where a head is gone or has no number),
    delta [texts], n_constant [units]; plainly: text_ids. A score that reads no texts has one row.
    """

    name = "importance"
    version = 2
    pace = 0.85

    def parts(self, context: TextContext, shard: TextShard) -> dict[str, Any]:
        method, settings = head_importance(shard.score), asked(context, shard.score)
        kept = {name: value for name, value in settings.items() if name not in method.not_in_key}
        texts = [context.settings.score_texts, context.settings.length_filter]
        return {"score": [method.version, kept], "texts": texts if method.reads_texts else 0}

    def needs(self, context: TextContext, shard: TextShard) -> list[TextShard]:
        return context.model_shards(shard)

    def table(self, context: TextContext, shard: TextShard) -> pd.DataFrame:
        method = head_importance(shard.score)
        table = context.table(TRAIN).head(1)
        if method.reads_texts:
            table = scored_texts(context, shard.trial)
        classifier, (texts, second) = context.model_of(shard), context.pairs(table)
        with masked(classifier, context.mask(shard.off)) if shard.off else nullcontext():
            found = method.scored(
                Texts(
                    classifier,
                    texts,
                    second,
                    table["label"].to_numpy(),
                    asked(context, shard.score),
                    context.seed(f"importance {shard.score}", shard.trial),
                    context.hooks.check,
                    context.inside,
                )
            )
        per_text, n_constant, off = found.per_text.copy(), found.n_constant.copy(), list(shard.off)
        per_text[:, off], n_constant[off] = np.nan, 0  # what silenced heads get means nothing
        arrays = {"per_text": per_text, "delta": found.delta, "n_constant": n_constant}
        return pack(arrays, {"text_ids": table["text_id"].tolist() if method.reads_texts else []})

    def size(self, context: TextContext, shard: TextShard) -> float:
        if not head_importance(shard.score).reads_texts:
            return 1.0
        steps = asked(context, shard.score).get("steps", 0)
        return 3.0 * context.settings.score_texts * (steps + 1)


def asked(context: TextContext, score: str) -> Values:
    """All settings of a score, declared defaults included."""
    return settings_of(head_importance(score), context.settings.scores.get(score, {}))


MIDDLE = (0.05, 0.95)
"""Quantiles of text length between which texts are scored (thesis, Sec. 6.6.1: lengths filtered by
quantiles)."""
DEVIATIONS = 2.0
"""Standard deviations from the mean length, for the other filter that the thesis names without a
number."""


def answers_of(context: TextContext, classifier: TextClassifier, split: str = TEST) -> np.ndarray:
    """Probabilities of a split's texts in the order of `context.table`, [n, classes] float32."""
    texts, second = context.pairs(context.table(split))
    return probabilities_of(
        classifier, texts, second, context.settings.batch, context.hooks.check, context.inside
    )


def scored_texts(context: TextContext, trial: int) -> pd.DataFrame:
    """Training texts that a score reads in one trial: equally many of every class, drawn among
    those of usual length.

    PruneAuditError where a class has no text of usual length.
    """
    table, settings = context.table(TRAIN), context.settings
    words = (table["text"] + " " + table["text_b"]).str.split().str.len()
    ends = words.quantile(list(MIDDLE))
    if settings.length_filter == "deviation":
        ends = words.mean() + words.std() * np.array([-DEVIATIONS, DEVIATIONS])
    usual = table[words.between(*ends)]
    counts = usual["label"].value_counts()
    if len(counts) < table["label"].nunique():
        raise PruneAuditError(
            f"{context.texts.name}: a class has no training text of usual length"
            f" ({settings.length_filter} of lengths in words), so no balanced sample can be"
            " scored."
        )
    per_class = max(1, min(settings.score_texts // len(counts), int(counts.min())))
    parts = []
    for label, rows in usual.groupby("label"):
        draw = rng("scored texts", settings.first_seed + trial, label)
        parts.append(rows.iloc[np.sort(draw.permutation(len(rows))[:per_class])])
    return pd.concat(parts).sort_values("text_id").reset_index(drop=True)


EXAMPLES_PER_CLASS = 2
LONGEST = 32
"""Tokens above which a text is no example: a matrix must be readable."""
COLUMNS = (
    "text_id layer head tokens n_tokens attention attribution correlation scale predicted label"
)


class Lens(EachAlone):
    """One row per text, layer and head that is left, for a few test texts: what the attention lens
    shows (Figs. 6.2-6.5), COLUMNS. Matrices are float16 bytes, row = from, column = to."""

    name = "lens"
    start = 400.0

    def parts(self, context: TextContext, shard: TextShard) -> dict[str, Any]:
        settings = asked(context, "conductance")
        return {name: settings[name] for name in ("steps", "baseline", "correlation", "target")}

    def needs(self, context: TextContext, shard: TextShard) -> list[TextShard]:
        return context.model_shards(shard)

    def table(self, context: TextContext, shard: TextShard) -> pd.DataFrame:
        """Examples: per class the first test texts, by id, that are short enough to be read as a
        matrix. Never picked by what a model does with them."""
        classifier, texts = context.model_of(shard), context.table(TEST)
        short = texts[context.any_model.lengths(*context.pairs(texts)) <= LONGEST]
        examples = short.groupby("label", group_keys=False).head(EXAMPLES_PER_CLASS)
        rows = (self._rows(context, classifier, text) for text in examples.itertuples())
        return pd.DataFrame(chain.from_iterable(rows), columns=COLUMNS.split())

    def _rows(
        self, context: TextContext, classifier: TextClassifier, text: Any
    ) -> Iterator[tuple[Any, ...]]:
        """One row per head of one text."""
        context.hooks.check()
        settings, classes = asked(context, "conductance"), classifier.classes
        batch = classifier.encode([text.text], [text.text_b] if context.texts.pair else None)
        gold = torch.tensor([text.label], device=classifier.device)
        found = conductance(
            classifier,
            batch,
            steps=settings["steps"],
            labels=gold if settings["target"] == "gold" else None,
            baseline=settings["baseline"],
            check=context.hooks.check,
        )
        tokens = classifier.tokenizer.convert_ids_to_tokens(batch["input_ids"][0].tolist())
        valid = batch["attention_mask"].bool()
        said = classes[int(found.predicted[0])], classes[text.label]
        maps = zip(kept_units(classifier), found.attention, found.attribution, strict=True)
        for layer, (units, attention, attribution) in enumerate(maps):
            if not len(units):
                continue
            agree = correlations(attention, attribution, valid, settings["correlation"])[0]
            for place, head in enumerate(units % classifier.n_heads):
                matrix = attribution[0, place]
                scale = float(matrix.abs().max()) or 1.0
                shares = (matrix.double() / scale, attention[0, place])
                weights, looks = (one.half().cpu().numpy().tobytes() for one in shares)
                first = text.text_id, layer, int(head), json.dumps(tokens), len(tokens)
                yield *first, looks, weights, float(agree[place]), scale, *said


# Measurements of one trial's fine-tuned model under masks, with nothing trained again.


class UnderMasks(EachAlone):
    """One table per trial, which needs the trial's full model first."""

    any_threads = True

    def needs(self, context: TextContext, shard: TextShard) -> list[TextShard]:
        return [context.tuned_shard(shard.trained, shard.trial)]

    def answers(
        self, context: TextContext, shard: TextShard, masks: Sequence[Sequence[int]]
    ) -> np.ndarray:
        """Probabilities of the test texts under each mask, [masks, texts, classes]."""
        hooks, texts = context.hooks, context.pairs(context.table(TEST))
        return answers_under(context.model_of(shard), *texts, masks, hooks.check, context.inside)


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
    gates, done = torch.ones(len(masks), clf.n_layers * clf.n_heads), 0
    for gate, units in zip(gates, masks, strict=True):
        gate[list(units)] = 0.0
    for places, batch, _ in in_batches(clf, texts, texts_b, min(room, TEXTS_AT_ONCE)):
        left = 0
        while left < len(masks):
            check()
            stacked = partial(_stacked, clf, batch, gates[left:])
            part = runtime.with_backoff(stacked, max(1, room // len(places)))
            found[left : left + len(part), places] = part
            left += len(part)
        done += len(places)
        inside(done / len(texts))
    return found


@torch.no_grad()
def _stacked(
    clf: TextClassifier, batch: dict[str, torch.Tensor], gates: torch.Tensor, size: int
) -> np.ndarray:
    """Probabilities of encoded texts under each of the first `size` gates [masks, units], 1 where a
    head stays, [size, texts, classes]."""
    gates, texts = gates[:size].unflatten(1, (clf.n_layers, clf.n_heads)), len(batch["input_ids"])
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
        labels = context.table(TEST)["label"].to_numpy()
        masks = [(), *((unit,) for unit in range(context.n_units))]
        answers = self.answers(context, shard, masks)
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
        asked = context.settings.random_masks, context.settings.first_seed
        units = random_units(context.n_units, shard.n_cut, *asked)
        answers = self.answers(context, shard, units.tolist())
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
