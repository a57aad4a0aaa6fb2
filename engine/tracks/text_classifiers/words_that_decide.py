"""What two classifiers answer to a text, and what each word adds to the answer: Captum's integrated
gradients."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from engine.classifiers.tables import kept_weights
from engine.core.errors import refusal
from engine.core.types import HeadMask, Hooks, Values, digest_of
from engine.models.load_language_model import files_beside
from engine.models.load_text_classifier import TextClassifier
from engine.resident.warm import Warm
from engine.store.runs import Run
from engine.surgery.filters.graph import with_weights
from engine.surgery.heads.mask import cut
from engine.tracks.text_classifiers.captum_layers import STEPS_OF_WORDS, word_attributions
from engine.tracks.text_classifiers.checkpoint import cut_classifier, retuned, start_of
from engine.tracks.text_classifiers.sentence import Question
from engine.training.losses import log_odds

ON_DENSE = (
    "The weights of this cut model were not kept. Its heads are off in the dense model instead, "
    "without the later fine-tuning. The audit's numbers are not about this model."
)


def pair_of(question: Question, warm: Warm) -> tuple[TextClassifier, TextClassifier, list[str]]:
    """The dense and the pruned classifier, with the weights they were measured with, and what must
    be said of them."""
    run, variant = question.run, question.variant
    model = run.request["model"]
    about = [run.model["weight_hash"], files_beside(model), model, run.id]
    dense = warm.get(
        f"text classifier {run.model['name']} {digest_of([*about, int(variant['seed'])])[:16]}",
        lambda: _dense(run, int(variant["seed"])),
        _bytes_of,
    )
    key = f"cut text classifier {variant['variant']} {digest_of([*about, variant['variant']])[:16]}"
    pruned, notes = warm.get(
        key, lambda: _pruned(run, variant, dense), lambda made: _bytes_of(made[0])
    )
    return dense, pruned, notes


def _bytes_of(classifier: TextClassifier) -> int:
    return classifier.n_parameters * classifier.dtype.itemsize


def _dense(run: Run, seed: int) -> TextClassifier:
    """The full model, as the seed fine-tuned it where every seed did."""
    if not retuned(run):
        return start_of(run, None, new_head=False)
    arrays = kept_weights(run, f"dense#{max(seed, 0)}")  # before anything is loaded
    return with_weights(start_of(run, None, new_head=True), arrays)


def _pruned(run: Run, variant: Values, dense: TextClassifier) -> tuple[TextClassifier, list[str]]:
    units = json.loads(variant["cut"] or "[]")
    if not units:
        return dense, ["Nothing is cut: both models are the same."]
    mask = HeadMask.from_units(run.model["n_layers"], run.model["n_heads"], units)
    if variant["retrained"] and not (
        run.has("weights") and bool((run.table("weights")["variant"] == variant["variant"]).any())
    ):
        return cut(dense, mask), [ON_DENSE]
    return cut_classifier(run, variant, mask, None), []


def answered(
    question: Question, models: tuple[TextClassifier, TextClassifier, list[str]], hooks: Hooks
) -> dict[str, Any]:
    """The answer, JSON-able: see `asks.py`."""
    dense, pruned, notes = models
    length = int(dense.lengths([question.text], [question.second] if question.second else None)[0])
    if length > dense.max_length:
        what = f"has {length} tokens; the audit's classifier reads {dense.max_length}."
        raise refusal("text", what, "Shorten it: what decides would be cut off.")
    words, places = words_of(dense, question.text, question.second)
    sides = {}
    target = -1
    for name, classifier in (("dense", dense), ("pruned", pruned)):
        hooks.check()
        batch = classifier.encode([question.text], [question.second] if question.second else None)
        with torch.no_grad():
            logits = classifier.logits(batch)[0].double()
        target = int(logits.argmax()) if target < 0 else target
        found, missed = word_attributions(classifier, batch, target)
        sides[name] = {
            "probabilities": logits.softmax(-1).tolist(),
            "answer": dense.classes[int(logits.argmax())],
            "log_odds": float(log_odds(logits[None])[0, target]),
            "words": _summed(found, places, len(words)),
            "missed": missed,
        }
    return {
        "run": question.run.id,
        "cut": question.label,
        "heads": _heads(question),
        "classes": list(dense.classes),
        "target": dense.classes[target],
        "steps": STEPS_OF_WORDS,
        "words": words,
        **sides,
        "notes": [*question.notes, *notes],
    }


def _heads(question: Question) -> list[str]:
    units = json.loads(question.variant["cut"] or "[]")
    return [".".join(map(str, divmod(unit, question.run.model["n_heads"]))) for unit in units]


def words_of(
    classifier: TextClassifier, text: str, second: str = ""
) -> tuple[list[str], list[int]]:
    """Words of the text as its tokenizer counts them, and for every token the word it is of, −1 for
    special tokens."""
    found = classifier.tokenizer(text, second or None)
    both, places = (text, second), []
    words: list[str] = []
    known: dict[tuple[int, int], int] = {}
    for token, (sequence, word) in enumerate(
        zip(found.sequence_ids(0), found.word_ids(0), strict=True)
    ):
        if word is None:
            places.append(-1)
            continue
        part = both[sequence][slice(*found.token_to_chars(0, token))]
        if (sequence, word) in known:
            words[known[sequence, word]] += part
        else:
            known[sequence, word] = len(words)
            words.append(part)
        places.append(known[sequence, word])
    return words, places


def _summed(values: Sequence[float], places: Sequence[int], n: int) -> list[float]:
    """Values of tokens, added up by word."""
    out = np.zeros(n)
    for value, place in zip(values, places, strict=True):
        if place >= 0:
            out[place] += value
    return out.tolist()
