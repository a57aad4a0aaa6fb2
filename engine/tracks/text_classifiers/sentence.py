"""sentence: what the dense and a pruned classifier answer to a text of one's own, and what each
word adds to the answer.

What is asked is checked before anything loads; no torch until something does.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.classifiers.tables import kept_weights
from engine.core.errors import Fault, refusal
from engine.core.text import CONTROL
from engine.core.types import Hooks, Values, digest_of
from engine.models.load_language_model import files_beside
from engine.report import phrasing
from engine.report.one_input import asked_model
from engine.resident.asks import Ask
from engine.resident.warm import Warm
from engine.store.runs import Run, Store, run_in
from engine.surgery.named import mask_of_units
from engine.tracks.text_classifiers.checkpoint import cut_classifier, retuned, start_of

if TYPE_CHECKING:
    from engine.models.load_text_classifier import TextClassifier

MOST_CHARACTERS = 20_000
"""Of a text: more is refused before a tokenizer sees it."""
ON_DENSE = (
    "The weights of this cut model were not kept. Its heads are off in the dense model instead, "
    "without the later fine-tuning. The audit's numbers are not about this model."
)


class Sentence(Ask):
    """given: run (id), text, second (of a pair), variant (id; else the one where readers start).

    The answer: run, cut (in words), heads, classes, target (the dense model's answer, which words
    speak for or against), steps, notes; dense and pruned; words, the text in pieces.

    Of dense and pruned each: probabilities [classes], answer, log_odds (of the target), missed (how
    far the sum of words is off), and words. These are what each word adds, in the order of the
    answer's own `words`.
    """

    name = "sentence"

    def answer(self, given: Values, warm: Warm, hooks: Hooks, store: Store) -> dict[str, Any]:
        question = question_of(given, run_in(store, given.get("run")))
        return _answered(question, _pair_of(question, warm), hooks)


@dataclass(frozen=True)
class Question:
    """What is asked. `variant`: the row of one seed, which cuts `units`; `second`: None where the
    task has one text."""

    run: Run
    variant: Values
    label: str
    text: str
    second: str | None
    notes: tuple[str, ...]

    @property
    def units(self) -> list[int]:
        return json.loads(self.variant["cut"] or "[]")


def question_of(given: Values, run: Run) -> Question:
    """The question, or RequestError with every fault. given: see `Sentence`."""
    names = ("text", "second") if run.data.get("pair") else ("text",)
    texts = {name: given.get(name, "") for name in names}
    faults = [fault for name, text in texts.items() for fault in _text_faults(name, text)]
    if given.get("second") and "second" not in texts:
        faults.append(
            Fault("second", "is given, and the task of this audit has one text.", "Leave it out.")
        )
    model = asked_model(given, run, ("run", "text", "second", "variant"), faults)
    notes = model.notes
    if steering := sum(len(CONTROL.findall(text)) for text in texts.values()):
        many = phrasing.count(steering, "control character")
        notes = (*notes, f"{many} in the text: shown as a mark, read as it is.")
    return Question(run, model.variant, model.label, texts["text"], texts.get("second"), notes)


def _text_faults(name: str, text: Any) -> list[Fault]:
    if not isinstance(text, str) or not text.strip():
        return [Fault(name, "is empty.", "Write a sentence.")]
    if len(text) > MOST_CHARACTERS:
        what = f"has {len(text):,} characters; at most {MOST_CHARACTERS:,} are read."
        return [Fault(name, what, "Shorten it.")]
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        what = "holds half of a character (a lone surrogate)."
        return [Fault(name, what, "Write it in valid Unicode.")]
    return []


def _pair_of(question: Question, warm: Warm) -> tuple[TextClassifier, TextClassifier, list[str]]:
    """The dense and the pruned classifier, with the weights they were measured with, and what must
    be said of them."""
    run, variant = question.run, question.variant
    seed, name, model = int(variant["seed"]), variant["variant"], run.request["model"]

    def bytes_of(classifier: TextClassifier) -> int:
        return classifier.n_parameters * classifier.dtype.itemsize

    def key(what: str, *more: Any) -> str:
        about = [run.model["weight_hash"], files_beside(model), model, run.id, *more]
        return f"{what} {digest_of(about)[:16]}"

    dense = warm.get(
        key(f"text classifier {run.model['name']}", seed), lambda: _dense(run, seed), bytes_of
    )
    pruned, notes = warm.get(
        key(f"cut text classifier {name}", name),
        lambda: _pruned(question, dense),
        lambda made: bytes_of(made[0]),
    )
    return dense, pruned, notes


def _dense(run: Run, seed: int) -> TextClassifier:
    """The full model, as the seed fine-tuned it where every seed did."""
    from engine.surgery.filters.graph import with_weights

    if not retuned(run):
        return start_of(run, None, new_head=False)
    arrays = kept_weights(run, f"dense#{max(seed, 0)}")  # before anything is loaded
    return with_weights(start_of(run, None, new_head=True), arrays)


def _pruned(question: Question, dense: TextClassifier) -> tuple[TextClassifier, list[str]]:
    from engine.surgery.heads.mask import cut

    run, variant = question.run, question.variant
    if not question.units:
        return dense, ["Nothing is cut: both models are the same."]
    mask = mask_of_units(run, question.units)
    has = run.has("weights") and variant["variant"] in set(run.table("weights")["variant"])
    if variant["retrained"] and not has:
        return cut(dense, mask), [ON_DENSE]
    return cut_classifier(run, variant, mask, None), []


def _answered(
    question: Question, models: tuple[TextClassifier, TextClassifier, list[str]], hooks: Hooks
) -> dict[str, Any]:
    """The answer, JSON-able: see `Sentence`."""
    import torch

    from engine.tracks.text_classifiers.captum_layers import STEPS_OF_WORDS, word_attributions
    from engine.training.losses import log_odds

    dense, pruned, notes = models
    texts, second = [question.text], [question.second] if question.second else None
    if (length := int(dense.lengths(texts, second)[0])) > dense.max_length:
        what = f"has {length} tokens; the audit's classifier reads {dense.max_length}."
        raise refusal("text", what, "Shorten it: what decides would be cut off.")
    words, places = words_of(dense, question.text, question.second)
    sides: dict[str, Values] = {}
    target = -1
    for name, classifier in (("dense", dense), ("pruned", pruned)):
        hooks.check()
        batch = classifier.encode(texts, second)
        with torch.no_grad():
            logits = classifier.logits(batch)[0].double()
        answer = int(logits.argmax())
        target = answer if target < 0 else target
        found, missed = word_attributions(classifier, batch, target)
        sides[name] = {
            "probabilities": logits.softmax(-1).tolist(),
            "answer": dense.classes[answer],
            "log_odds": float(log_odds(logits[None])[0, target]),
            "words": np.bincount(np.add(places, 1), found, len(words) + 1)[1:].tolist(),
            "missed": missed,
        }
    return {
        "run": question.run.id,
        "cut": question.label,
        "heads": ["{}.{}".format(*divmod(unit, dense.n_heads)) for unit in question.units],
        "classes": list(dense.classes),
        "target": dense.classes[target],
        "steps": STEPS_OF_WORDS,
        "words": words,
        **sides,
        "notes": [*question.notes, *notes],
    }


def words_of(
    classifier: TextClassifier, text: str, second: str | None = None
) -> tuple[list[str], list[int]]:
    """Words of the text as its tokenizer counts them, and for every token the word it is of, −1 for
    special tokens."""
    found = classifier.tokenizer(text, second or None)
    known: dict[tuple[int, int], int] = {}
    words: list[str] = []
    places = []
    for token, word in enumerate(zip(found.sequence_ids(0), found.word_ids(0), strict=True)):
        if word[1] is None:
            places.append(-1)
            continue
        if word not in known:
            known[word] = len(words)
            words.append("")
        places.append(known[word])
        words[known[word]] += (text, second or "")[word[0]][slice(*found.token_to_chars(0, token))]
    return words, places
