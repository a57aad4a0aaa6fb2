"""Attention and its attribution as matrices, for a few test texts: what the attention lens shows
(Figs. 6.2-6.5)."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import torch

from engine.classifiers.audit import EachAlone
from engine.models.load_text_classifier import TextClassifier
from engine.tracks.text_classifiers.conductance import Conductance, conductance
from engine.tracks.text_classifiers.context import TEST, TextContext, TextShard
from engine.tracks.text_classifiers.map_correlation import correlations
from engine.tracks.text_classifiers.measurements.importance import asked
from engine.tracks.text_classifiers.scores.base import kept_units

EXAMPLES_PER_CLASS = 2
LONGEST = 32
"""Tokens above which a text is no example: a matrix must be readable."""
COLUMNS = (
    "text_id",
    "layer",
    "head",
    "tokens",
    "n_tokens",
    "attention",
    "attribution",
    "correlation",
    "scale",
    "predicted",
    "label",
)


class Lens(EachAlone):
    """One row per text, layer and head that is left: COLUMNS. Matrices are float16 bytes, row =
    from, column = to."""

    name = "lens"
    start = 400.0

    def parts(self, context: TextContext, shard: TextShard) -> dict[str, Any]:
        settings = asked(context, "conductance")
        return {name: settings[name] for name in ("steps", "baseline", "correlation", "target")}

    def needs(self, context: TextContext, shard: TextShard) -> list[TextShard]:
        return context.model_shards(shard)

    def table(self, context: TextContext, shard: TextShard) -> pd.DataFrame:
        classifier, settings = context.model_of(shard), asked(context, "conductance")
        rows: list[tuple[Any, ...]] = []
        for text in lens_texts(context).itertuples():
            context.hooks.check()
            batch = classifier.encode([text.text], [text.text_b] if context.texts.pair else None)
            found = conductance(
                classifier,
                batch,
                steps=settings["steps"],
                target=settings["target"],
                labels=torch.tensor([text.label], device=classifier.device),
                baseline=settings["baseline"],
                check=context.hooks.check,
            )
            rows += _rows(classifier, text, batch, found, settings["correlation"])
        return pd.DataFrame(rows, columns=list(COLUMNS))


def lens_texts(context: TextContext) -> pd.DataFrame:
    """Examples: per class the first test texts, by id, that are short enough to be read as a
    matrix. Never picked by what a model does with them."""
    table = context.table(TEST)
    texts, second = context.pairs(table)
    short = table[context.any_model.lengths(texts, second) <= LONGEST]
    return short.groupby("label", group_keys=False).head(EXAMPLES_PER_CLASS).reset_index(drop=True)


def _rows(
    classifier: TextClassifier,
    text: Any,
    batch: dict[str, torch.Tensor],
    found: Conductance,
    method: str,
) -> list[tuple[Any, ...]]:
    """One row per head of one text; batch: token ids and mask of that text, [1, tokens] each."""
    tokens = classifier.tokenizer.convert_ids_to_tokens(batch["input_ids"][0].tolist())
    valid = batch["attention_mask"].bool()
    said = classifier.classes[int(found.predicted[0])], classifier.classes[text.label]
    rows: list[tuple[Any, ...]] = []
    heads = kept_units(classifier)
    for layer, (attention, attribution) in enumerate(
        zip(found.attention, found.attribution, strict=True)
    ):
        if not attention.shape[1]:
            continue
        agree = correlations(attention, attribution, valid, method)[0].tolist()
        for place, head in enumerate(heads[layer] % classifier.n_heads):
            weights, scale = _scaled(attribution[0, place])
            rows.append(
                (
                    text.text_id,
                    layer,
                    int(head),
                    json.dumps(tokens),
                    len(tokens),
                    attention[0, place].half().cpu().numpy().tobytes(),
                    weights,
                    agree[place],
                    scale,
                    *said,
                )
            )
    return rows


def _scaled(matrix: torch.Tensor) -> tuple[bytes, float]:
    """Bytes of a matrix [tokens, tokens] over its largest entry, float16, and that entry (1 where
    all are zero)."""
    most = float(matrix.abs().max())
    scale = most if most > 0 and np.isfinite(most) else 1.0
    return (matrix.double() / scale).half().cpu().numpy().tobytes(), scale
