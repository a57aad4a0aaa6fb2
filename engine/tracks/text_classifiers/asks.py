"""sentence: what the dense and a pruned classifier answer to a text, and which words decided."""

from __future__ import annotations

from typing import Any

from engine.core.types import Hooks, Values
from engine.resident.asks import Ask
from engine.resident.warm import Warm
from engine.store.runs import Store, run_in
from engine.tracks.text_classifiers.sentence import question_of


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
        run = run_in(store, given.get("run"))
        question = question_of(given, run)
        from engine.tracks.text_classifiers.words_that_decide import answered, pair_of  # torch

        return answered(question, pair_of(question, warm), hooks)
